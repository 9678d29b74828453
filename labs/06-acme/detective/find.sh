#!/bin/sh
# find.sh NAMESPACE CERTIFICATE watches how cert-manager gets this certificate by ACME, and prints what it has found as YAML. It
# has to begin while the order is pending: cert-manager removes the objects that serve a challenge when the challenge is done.
set -eu
namespace=$1
certificate=$2

# look KIND NAME PATH prints fields of an object, as a jsonpath.
look() {
  kubectl --namespace "$namespace" get "$1" "$2" --output "jsonpath=$3"
}

# owned KIND OWNER waits until there is an object of this kind that the object OWNER owns, and prints its name.
owned() {
  owned=
  until [ -n "$owned" ]; do
    owned=$(kubectl --namespace "$namespace" get "$1" \
      --output "jsonpath={range .items[?(@.metadata.ownerReferences[0].name==\"$2\")]}{.metadata.name}{\"\n\"}{end}" | head -n 1)
    [ -n "$owned" ] || sleep 0.5
  done
  echo "$owned"
}

# TODO(lab): 10. A Certificate owns CertificateRequests, such a request owns an Order, and an Order owns Challenges. Find those of
# this certificate (owned), not the first of the namespace.
echo "order: ''"
echo "challenge: ''"

# TODO(lab): 11. Read from the Challenge the name that is to be proved, the token and the key authorization (key). Make from these
# the URL that the ACME server asks.
echo "domain: ''"
echo "token: ''"
echo "key: ''"
echo "url: ''"

# TODO(lab): 12. Which issuer has ordered (KIND/NAME), with which account at the ACME server (its URI is in the issuer's status), and
# in which Secret is the key of that account (NAMESPACE/NAME)?
echo "issuer: ''"
echo "account: ''"
echo "accountKey: ''"

# TODO(lab): 13. A Pod, a Service and an Ingress serve the answer (one of them, if there are several). Which object owns these
# three (KIND/NAME)?
echo "pod: ''"
echo "service: ''"
echo "ingress: ''"
echo "owner: ''"
