"""The report of ``manage.py simulate --html``: one file that needs neither this product nor a network."""
