#!/bin/sh
# rescue.sh NAME FINALIZER frees the icecream NAME, which is being deleted, from FINALIZER, whose controller is gone. It
# touches nothing else: no other finalizer, no other icecream, and none that is not being deleted.
set -eu
name=$1
finalizer=$2

# TODO(lab): 8. Look whether it is being deleted (kubectl get -o jsonpath), find the place of the finalizer in the list,
# and take this one out (kubectl patch --type=json).
echo "not written yet: $name stays, with $finalizer" >&2
exit 1
