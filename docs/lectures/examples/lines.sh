#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Operator Labs authors
#
# A controller. It keeps lines.txt, in the working folder: one line for each ConfigMap of the namespace default with the label line=yes.
# It needs curl and jq, and `kubectl proxy` for the account.
set -u
api='http://127.0.0.1:8001/api/v1/namespaces/default/configmaps?labelSelector=line%3Dyes'

# Compare what there should be with what there is, and write only what differs. A file that is renamed is never half written.
reconcile() {
  list=$(curl -fsS "$api") || return 1
  version=$(echo "$list" | jq -r .metadata.resourceVersion)
  echo "$list" | jq -r '.items | sort_by(.metadata.name)[].data.line // empty' >lines.new || return 1
  if cmp -s lines.new lines.txt; then
    rm lines.new
  else
    mv lines.new lines.txt
    echo "wrote lines.txt: $(wc -l <lines.txt) lines"
  fi
}

# First all that is there, then each change since. The API server ends a watch now and then, or says that it no longer knows what happened
# since then (410 Gone): all that is there, again.
while :; do
  if reconcile; then
    echo "watching from $version"
    curl -fsSN "$api&watch=1&resourceVersion=$version&timeoutSeconds=300" | while read -r event; do
      echo "$event" | jq -r '"\(.type) \(.object.metadata.name)"'
      reconcile
    done
  fi
  sleep 1
done
