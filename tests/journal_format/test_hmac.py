"""The keyed digest is the standard one, for keys and messages of any length."""

from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st

from trouper_journal._digest import hmac_sha256


@given(st.binary(max_size=150), st.binary(max_size=300))
def test_it_is_the_standard_library_s(key: bytes, message: bytes) -> None:
    assert hmac_sha256(key, message) == hmac.digest(key, message, "sha256")
