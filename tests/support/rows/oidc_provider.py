"""A small OpenID Connect provider on this machine: real HTTP, real signatures, and lies on request."""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey


class Provider:
    """One provider with one client and one user.

    Attributes:
        claims: What it says of the user.
        lie: Name of what it does wrong; see ``_token``.
    """

    client_id, client_secret = "clusterweb", "s3cret-of-the-client"

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {"sub": "u-1", "preferred_username": "mia", "email": "mia@example.org"}
        self.lie = ""
        self.token_requests: list[dict[str, str]] = []
        self._key = RSAKey.generate_key(2048, {"kid": "k1"})
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/.well-known/openid-configuration":
                    self._answer(provider.metadata())
                else:
                    self._answer({"keys": [provider._key.as_dict(private=False)]})

            def do_POST(self) -> None:
                sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                status, body = provider._token(
                    {name: values[0] for name, values in sent.items()}, self.headers.get("Authorization", "")
                )
                self._answer(body, status)

            def _answer(self, body: dict[str, Any], status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self.server.shutdown()
        self.server.server_close()

    def metadata(self) -> dict[str, Any]:
        """Return what it says of itself."""
        return {
            "issuer": "https://other.example" if self.lie == "metadata issuer" else self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }

    def sign_in(self, url: str) -> str:
        """Do what a browser and a user do at the provider; return where they are sent back to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["client_id"] == self.client_id
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def _token(self, sent: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        self.token_requests.append(sent)
        asked = self._codes.pop(sent.get("code", ""), None)
        expected = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent.get("code_verifier", "").encode()).digest())
        if (
            asked is None
            or authorization != f"Basic {expected}"
            or challenge.decode().rstrip("=") != asked["code_challenge"]
            or sent["redirect_uri"] != asked["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        body: dict[str, Any] = {"access_token": "at", "token_type": "Bearer"}
        if self.lie != "no token":
            body["id_token"] = self._id_token(asked)
        return 200, body

    def _id_token(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": self.client_id,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        wrong: dict[str, dict[str, Any]] = {
            "issuer": {"iss": "https://other.example"},
            "audience": {"aud": "another-client"},
            "expired": {"exp": now - 3_600, "iat": now - 7_200},
            "future": {"nbf": now + 3_600},
            "nonce": {"nonce": "of-another-browser"},
            "azp": {"aud": [self.client_id, "another"], "azp": "another"},
        }
        claims |= wrong.get(self.lie, {})
        for name in {"no nonce": ["nonce"], "no subject": ["sub"], "no audience": ["aud"], "no expiry": ["exp"]}.get(
            self.lie, []
        ):
            claims.pop(name)
        return self._signed(claims)

    def _signed(self, claims: dict[str, Any]) -> str:
        header = {"alg": "RS256", "kid": "k1"}
        if self.lie == "other key":
            return jwt.encode(header, claims, RSAKey.generate_key(2048, {"kid": "k1"}))
        if self.lie == "shared secret":  # signed with what both sides know, not with the key of the provider
            key = OctKey.import_key(self.client_secret)
            return jwt.encode({"alg": "HS256", "kid": "k1"}, claims, key, algorithms=["HS256"])
        if self.lie == "unsigned":
            parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
            return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
        token = jwt.encode(header, claims, self._key)
        if self.lie == "changed":
            head, body, tail = token.split(".")
            return f"{head}.{body[:-2]}{'AA' if body[-2:] != 'AA' else 'BB'}.{tail}"
        return token
