#!/bin/sh
# why.sh NAMESPACE CERTIFICATE says as YAML why this certificate is not issued: the state and the reason of its Challenge, and the
# error of the ACME server.
set -eu
namespace=$1
certificate=$2

#lab:begin why
# There is one Challenge for each name, and these certificates have one name. All objects that are made for a Certificate have its name
# as an annotation, except the Challenge. Its name begins with that of the request, which begins with that of the certificate.
find() {
  kubectl --namespace "$namespace" get challenges --output "jsonpath={range .items[*]}{.metadata.name}{\" \"}{$1}{\"\n\"}{end}" |
    sed -n "s/^$certificate-[^ ]* //p" | head -n 1
}

# The reason appears with the first self check, or with the ACME server's answer. A reason that does not name the domain is about
# something else, and passes.
domain=
until [ -n "$domain" ]; do
  domain=$(find .spec.dnsName)
  [ -n "$domain" ] || sleep 0.5
done
reason=
until [ "${reason#*"$domain"}" != "$reason" ]; do
  reason=$(find .status.reason)
  [ -n "$reason" ] || sleep 0.5
done
echo "state: $(find .status.state)"
# A reason may have colons and quotes in it. A YAML block takes it as it is.
printf 'reason: |-\n  %s\n' "$reason"
# Errors of ACME have a type (RFC 8555, section 6.7). Without one, the ACME server was not asked.
echo "acme: $(echo "$reason" | grep -o 'urn:ietf:params:acme:error:[A-Za-z]*' | head -n 1)"
#lab:else
# # TODO(lab): 14. The state and the reason in the status of the Challenge. And the type of the ACME server's error
# # (urn:ietf:params:acme:error:…), which is part of the reason. It is empty if the ACME server was not asked.
# # A reason that does not name the domain is about something that passes: look again.
# echo "state: ''"
# echo "reason: ''"
# echo "acme: ''"
#lab:end
