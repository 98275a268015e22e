"""Sealing and erasure: content that only the holder of keys can read, until the keys are destroyed.

```python
async with Journal.open("agents.db", registry=registry, keys=FileKeyStore("agents.keys")) as journal: ...
```

``docs/erasure.md`` tells how it is used, ``docs/format.md`` what is stored. It needs the package ``cryptography``
(the extra ``audit`` of ``trouper``).
"""

from trouper_journal._aead import SealBroken as SealBroken
from trouper_journal._erasing import destroy_keys as destroy_keys
from trouper_journal._errors import MissingExtra as MissingExtra
from trouper_journal._keyfile import FileKeyStore as FileKeyStore
from trouper_journal._keystore import DataKey as DataKey
from trouper_journal._keystore import KeyEntry as KeyEntry
from trouper_journal._keystore import KeyStore as KeyStore
from trouper_journal._keystore import KeyStoreError as KeyStoreError
from trouper_journal._keystore import MemoryKeyStore as MemoryKeyStore
from trouper_journal._records import Opened as Opened
from trouper_journal._records import Withheld as Withheld
from trouper_journal._sealed import references_of as references_of
from trouper_journal._sealer import ERASURES as ERASURES
