#!/bin/sh
# The main jobs: private intervals from a real table, charged to a ledger; and a rehearsal of
# learning from people who never hand over their data. `make demo` runs this.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

show confidp ledger "$work/cps.ledger" --create --mu 2
show confidp interval examples/data/cps_earnings.csv --column earnings_1978 \
  --bounds 0 30000 --resolution 0.01 --mu 1 --level 0.95 --ledger "$work/cps.ledger"
show confidp interval examples/data/cps_earnings.csv --column age \
  --bounds 16 55 --resolution 1 --epsilon 2 --delta 1e-6 --ledger "$work/cps.ledger" --json
show confidp ledger "$work/cps.ledger"

show confidp design --population normal --epsilon 1 --at 50 3.162 --se 0.1
show confidp simulate --population normal --truth 50 3.162 --epsilon 1 --people 3000
