// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/stage"
)

// server is the operator as an aggregated API server. It is nil if the operator is none.
func (o *operator) server() stage.Server {
	if server, ok := o.launcher.(stage.Server); ok && server.Serving() != nil {
		return server
	}
	return nil
}

// untestedFeatures lists the features of an aggregated API server that can't be tested in this environment.
func (o *operator) untestedFeatures(torture bool) (notices []string) {
	server := o.server()
	if server == nil {
		return nil
	}
	if o.cluster.FrontProxy.Cert == "" {
		notices = append(notices, "the certificate of this cluster's front proxy is not available, "+
			"so no request was sent as the front proxy: "+
			"not tested are the trust in the front proxy, the permissions past the API server, and 10,000 watches of one user")
	}
	if torture && server.Serving().DataDir == "" {
		notices = append(notices, "the server is a Pod, whose storage cannot be watched: "+
			"it is killed before and after its responses, and not after each change of a file")
	}
	return notices
}

// serving returns the address of an aggregated API server, and the front proxy's credentials for it. It is zero if
// the operator is no such server.
func (o *operator) serving() protocol.Server {
	server := o.server()
	if server == nil {
		return protocol.Server{}
	}
	at, front := server.Serving(), o.cluster.FrontProxy
	return protocol.Server{
		URL: at.URL, Name: at.Name, CA: string(at.CA), Namespace: at.Namespace, Service: at.Service, Port: at.Port,
		FrontProxyCert: front.Cert, FrontProxyKey: front.Key,
	}
}
