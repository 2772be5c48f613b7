#!/bin/sh
# study_check.sh FOLDER MODELS [PART ...]: holds the profiler's promises on the
# real model, part by part: what it found and how long it took is printed and kept
# in FOLDER. A part that held for these sources is not made again, so that a check
# that was broken off goes on where it was; `rm -r FOLDER` begins anew. It exits
# with 1 where a part does not hold, after all of them.
set -u
[ $# -ge 2 ] || { echo "usage: $0 FOLDER MODELS [PART ...]" >&2; exit 2; }
folder=$1
models=$(CDPATH= cd "$2" && pwd) || exit 2 # tests run in the folder of their package
shift 2
[ $# -gt 0 ] || set -- named predicted same parallelism
go=${GO:-go}
mkdir -p "$folder" || exit 1
sources=$({ git rev-parse HEAD; git diff HEAD -- '*.go' '*.s' go.mod; } | cksum)

# in_package NAME: a test of internal/study that holds figures. One that is
# skipped, or is not there, holds nothing.
in_package() {
	HOTPATH_MODELS=$models HOTPATH_STUDY_CHECK=1 $go test -tags nogpu -count 1 -timeout 20m -run "^$1\$" -v ./internal/study >"$folder/test.out" 2>&1
	rc=$?
	cat "$folder/test.out"
	[ $rc -eq 0 ] && grep -q "^--- PASS: $1 " "$folder/test.out" && ! grep -q -e '--- SKIP' "$folder/test.out"
}

# A kernel slowed by 20 per cent is the first difference that compare names, in size.
named() { in_package TestSlowedKernelIsNamed; }

# whatif predicts within 20 per cent what mending a slowed kernel gives.
predicted() { in_package TestMendingIsPredicted; }

# Of 100 comparisons of one build at most 5 find a difference.
same() { in_package TestOneBuildIsNoDifference; }

# A finished report on batches of 5, 15 and 40 tokens within five minutes.
parallelism() {
	CGO_ENABLED=0 $go build -tags nogpu -trimpath -o "$folder/hotpath" ./cmd/hotpath || return 1
	from=$(date +%s)
	"$folder/hotpath" study parallelism -m "$models/all-MiniLM-L6-v2" -o "$folder/parallelism" || return 1
	took=$(($(date +%s) - from))
	echo "the study took $took s, expected at most 300"
	[ "$took" -le 300 ] || return 1
	grep '5, 15 and 40 tokens | 32 |' "$folder/parallelism/report.md" || { echo "the report has no row of 32 texts of 5, 15 and 40 tokens"; return 1; }
}

bad=""
for part; do
	case $part in
	named | predicted | same | parallelism) ;;
	*) echo "$0: no part $part, expected named, predicted, same or parallelism" >&2; exit 2 ;;
	esac
	log=$folder/$part.txt
	if [ "$(tail -n 1 "$log" 2>/dev/null)" = "held: $sources" ]; then
		echo "== $part: held before"
		sed '$d' "$log"
		continue
	fi
	echo "== $part"
	start=$(date +%s)
	{ if $part; then echo "held: $sources"; else echo "did not hold"; fi; } >"$log.part" 2>&1
	sed '$d' "$log.part"
	last=$(tail -n 1 "$log.part")
	{ sed '$d' "$log.part"; echo "$part took $(($(date +%s) - start)) s"; echo "$last"; } >"$log"
	rm -f "$log.part"
	echo "$part took $(($(date +%s) - start)) s"
	[ "$last" = "held: $sources" ] || { echo "$part DID NOT HOLD"; bad="$bad $part"; }
done
[ -z "$bad" ] || { echo "did not hold:$bad"; exit 1; }
echo "all held: $*"
