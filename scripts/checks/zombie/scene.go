// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package zombie

import "time"

// Scene holds three icecreams and the two controllers that have put finalizers on them.
type Scene struct {
	// Zombie is being deleted, and blocked by the finalizer of a controller that is gone. Slow is being deleted, too, and
	// blocked by the finalizer of a slow controller that is alive. Living is not being deleted, and has the finalizer of
	// the controller that is gone.
	Zombie, Slow, Living string
	// Gone and Busy are the controllers.
	Gone, Busy Controller
	// ZombieBox and LivingBox are the boxes that Gone would have cleaned up before the deletion of the zombie, or of the
	// living one.
	ZombieBox, LivingBox string
	// Before and After are further finalizers of the zombie, in the list before and after that of Gone.
	Before, After []string
}

// Controller is a controller that does not exist. Only its traces do.
type Controller struct {
	// Name is the field manager of its writes (in managedFields), and the beginning of its identity in leader election.
	Name string
	// Finalizer is the finalizer that it puts on icecreams.
	Finalizer string
	// Namespace and Lease name the Lease of its leader election.
	Namespace, Lease string
}

// Playground is the scene that `lab zombie` plants, and that a student explains.
var Playground = Scene{
	Zombie: "halloween-special", Slow: "birthday-bowl", Living: "beach-cone",
	Gone: Controller{
		Name:      "coldchain-controller",
		Finalizer: "coldchain.example.com/deposit",
		Namespace: "coldchain-system",
		Lease:     "coldchain",
	},
	Busy: Controller{
		Name: "loyalty-controller", Finalizer: "loyalty.example.com/stamps", Namespace: "loyalty-system", Lease: "loyalty",
	},
	ZombieBox: "box-1031", LivingBox: "box-0715",
}

// These constants are how long a controller's leader holds its Lease, and when the leader of the controller that is
// gone last renewed it. The busy controller's leader holds its Lease for an hour, because no process renews it.
// Planting the scene again renews it.
const (
	goneHolds = 15 * time.Second
	goneSince = 9 * time.Hour
	busyHolds = time.Hour
)
