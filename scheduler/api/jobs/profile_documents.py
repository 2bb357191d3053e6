"""Documents of profiles. Nothing here runs in a request."""

from scheduler.api.http.documents import document_of, page_of
from scheduler.selectors.jobs.profile_rows import LiveRateRow, ProfileDetail, ProfileRow, RateRow

ProfileRowDocument = document_of(ProfileRow)
ProfileDocument = document_of(
    ProfileDetail,
    "ProfileDocument",
    rates=document_of(RateRow, "RateDocument"),
    live_rates=document_of(LiveRateRow, "LiveRateDocument"),
)
ProfilePage = page_of(ProfileRowDocument, "ProfilePage", "All profiles that you may see.")
