module example.com/memcached-operator

go 1.13

require (
	k8s.io/api v0.26.0
	k8s.io/apimachinery v0.26.0
	sigs.k8s.io/controller-runtime v0.14.1
)
