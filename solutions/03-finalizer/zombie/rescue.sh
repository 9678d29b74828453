#!/bin/sh
#lab:alone the zombie belongs to the second half of lab 03
# rescue.sh NAME FINALIZER frees the icecream NAME, which is being deleted, from FINALIZER, whose controller is gone. It
# touches nothing else: no other finalizer, no other icecream, and none that is not being deleted.
set -eu
name=$1
finalizer=$2

#lab:begin rescue
# One look decides everything: when it was deleted (nothing, if it was not), and the list of its finalizers.
seen=$(kubectl get icecream "$name" -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers[*]}')
deleted=${seen%% *}
if [ -z "$deleted" ]; then
  echo "$name is not being deleted: without the finalizer, its controller's work would never be done" >&2
  exit 1
fi

place=0
for held in ${seen#* }; do
  if [ "$held" = "$finalizer" ]; then
    # A JSON patch names an item of a list by its index. So the patch first tests that the finalizer still has this index: if
    # another client has changed the list in the meantime, the API server refuses the whole patch, and no other finalizer is
    # removed.
    exec kubectl patch icecream "$name" --type=json --patch='[
      {"op": "test", "path": "/metadata/finalizers/'"$place"'", "value": "'"$finalizer"'"},
      {"op": "remove", "path": "/metadata/finalizers/'"$place"'"}
    ]'
  fi
  place=$((place + 1))
done
echo "$name is not held by $finalizer" >&2
exit 1
#lab:else
# # TODO(lab): 8. Look whether it is being deleted (kubectl get -o jsonpath), find the place of the finalizer in the list,
# # and take this one out (kubectl patch --type=json).
# echo "not written yet: $name stays, with $finalizer" >&2
# exit 1
#lab:end
