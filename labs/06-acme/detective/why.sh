#!/bin/sh
# why.sh NAMESPACE CERTIFICATE says as YAML why this certificate is not issued: the state and the reason of its Challenge, and the
# error of the ACME server.
set -eu
namespace=$1
certificate=$2

# TODO(lab): 14. The state and the reason in the status of the Challenge. And the type of the ACME server's error
# (urn:ietf:params:acme:error:…), which is part of the reason. It is empty if the ACME server was not asked.
# A reason that does not name the domain is about something that passes: look again.
echo "state: ''"
echo "reason: ''"
echo "acme: ''"
