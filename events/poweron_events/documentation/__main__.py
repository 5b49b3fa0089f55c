"""Command that writes the generated files into the repository, or below a given folder."""

import sys
from pathlib import Path

from poweron_events.documentation import ROOT, write

write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
