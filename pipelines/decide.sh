#!/usr/bin/env bash
# decide: items, cases, cards or requests to decisions in one command: prompt-build | prefill-local or prefill-gateway | head-apply
set -euo pipefail
programs=${1:?}
shift
usage() {
    cat <<'END'
usage: anyjev-pipe decide (--model MODEL | --url URL | --fake) [OPTION ...] [FILE ...]
items, cases, cards or System One requests to decisions: prompt-build, a prefill and head-apply in one pipe

  -m, --model MODEL         the weights on this host; with --url the served model's tokenizer and chat template
  -u, --url URL             a server; without --model it renders the prompts itself (--api chat)
      --fake                planted answers
  -l, --level LEVEL         raw, L0, L1, L2 or auto (default: L0)
  -b, --bundle PATH         what was learnt from labels, for L1, L2 and auto
  -f, --format FORMAT       jsonl, table or systemone (default: jsonl)
  -q, --question ID         the question for records that name none, and for the columns of cards
      --questions FILE      another registry of questions
  -o, --output FILE         write to FILE instead of standard output
      --prior PRIOR         as head-apply's
      --template NAME       another chat template
      --threads N           of the weights on this host
      --served-model NAME, --api API, --workers N, --journal FILE, --key-file FILE, --proxy URL, --max-choice-k N,
      --min-mass P, --retries N, --read-timeout S, --allow-insecure, --allow-control-tokens
                            as prefill-gateway's
  -h, --help                print this help and exit
END
}
die() {
    echo "decide: $1" >&2
    exit 2
}

build=() fill=() apply=() gateway=() model='' url='' fake=
while [ $# -gt 0 ]; do
    case $1 in
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    esac
    case $1 in
    -h | --help) usage; exit 0 ;;
    --fake) fake=1; shift; continue ;;
    --allow-control-tokens) build+=("$1"); gateway+=("$1"); shift; continue ;;
    --allow-insecure) gateway+=("$1"); shift; continue ;;
    --) shift; break ;;
    -?*) [ $# -ge 2 ] || die "option '$1' needs a value, or is unknown; try --help" ;;
    *) break ;;
    esac
    case $1 in
    -m | --model) model=$2 ;;
    -u | --url) url=$2 ;;
    -l | --level) build+=(--level "$2") apply+=(--level "$2") ;;
    -b | --bundle) build+=(--bundle "$2") apply+=(--bundle "$2") ;;
    -q | --question) build+=(--question "$2") ;;
    --questions) build+=(--questions "$2") ;;
    --template) build+=(--template "$2") fill+=(--template "$2") ;;
    -f | --format) apply+=(--format "$2") ;;
    -o | --output) apply+=(--output "$2") ;;
    --prior) apply+=(--prior "$2") ;;
    --threads) fill+=(--threads "$2") ;;
    --served-model | --api | --workers | --journal | --key-file | --proxy | --max-choice-k | --min-mass | --retries | --read-timeout) gateway+=("$1" "$2") ;;
    *) die "unknown option '$1'; try --help" ;;
    esac
    shift 2
done
for a; do # options may follow files in the programs; here they must not, so that none is taken for a file
    case $a in -?*) die "option '$a' stands behind a file; put it before" ;; esac
done

if [ -n "$url" ]; then
    [ -z "$fake" ] || die "--url and --fake exclude each other"
    fill=(prefill-gateway --url "$url" "${gateway[@]}")
    case " ${gateway[*]} " in
    *' --api '*) ;;
    *) [ -n "$model" ] || fill+=(--api chat) ;;
    esac
    [ -z "$model" ] || fill+=(--tokenizer "$model")
elif [ -n "$fake" ]; then
    [ -z "$model" ] || die "--model and --fake exclude each other"
    fill=(prefill-fake)
elif [ -n "$model" ]; then
    fill=(prefill-local --model "$model" "${fill[@]}")
else
    die "name the weights (--model), a server (--url) or --fake"
fi
case " ${build[*]} " in
*' --template '*) ;;
*) if [ -n "$model" ]; then build+=(--model "$model"); else build+=(--template none); fi ;;
esac

set +e
"$programs/prompt-build" "${build[@]}" -- "$@" | "$programs/${fill[0]}" "${fill[@]:1}" | "$programs/head-apply" "${apply[@]}"
stages=("${PIPESTATUS[@]}")
# The first stage that failed knows why; one that only lost its reader (6) does not.
rc=0
for s in "${stages[@]}"; do
    if [ "$rc" -eq 0 ] || [ "$rc" -eq 6 ]; then [ "$s" -eq 0 ] || rc=$s; fi
done
exit "$rc"
