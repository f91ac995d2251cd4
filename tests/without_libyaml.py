"""Takes libyaml away from PyYAML before anything is imported: a plugin of pytest (`make light`)."""

from __future__ import annotations

import yaml

if hasattr(yaml, "CSafeLoader"):
    del yaml.CSafeLoader
