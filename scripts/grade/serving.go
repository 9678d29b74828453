// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/stage"
)

// server is the operator as an aggregated API server; nil: it is none.
func (o *operator) server() stage.Server {
	if server, ok := o.place.(stage.Server); ok && server.Serving() != nil {
		return server
	}
	return nil
}

// serving tells the checks of an aggregated API server where it is, and how one comes to it as the front proxy. Zero: it is none.
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
