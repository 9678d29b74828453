#!/bin/sh
# why.sh NAMESPACE CERTIFICATE says why this certificate does not come, as YAML: how far its Challenge is, what that says, and
# what the ACME server said about it.
set -eu
namespace=$1
certificate=$2

# TODO(lab): 14. The state and the reason in the status of the Challenge. And the type of the ACME server's error
# (urn:ietf:params:acme:error:…), if it was asked: it is part of the reason. Empty: nobody has asked it.
# A reason that does not name the domain is about something that passes: look again.
echo "state: ''"
echo "reason: ''"
echo "acme: ''"
