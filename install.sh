#!/usr/bin/env bash
# Installs Hermes from this tree: see scripts/install.sh --help.
exec bash "$(dirname "${BASH_SOURCE[0]}")/scripts/install.sh" "$@"
