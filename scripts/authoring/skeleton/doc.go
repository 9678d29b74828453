// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package skeleton makes a lab from its solution: the tasks, marked in the solution by comments, are taken out. It does
// not grade what it makes, and it never overwrites what somebody wrote into a lab.
//
// A task is a region of a file (in YAML, Makefiles and the like with # for //):
//
//	//lab:begin count-toppings
//	icecream.Status.ToppingsCount = len(icecream.Spec.Topping)
//	//lab:else
//	// // TODO(lab): count the toppings.
//	//lab:end
//
// The lab has the lines between else and end, without their comment signs, or nothing if there is no else. A page that
// shows the solution has the lines between begin and else.
//
// Two more markers are about solutions alone. A file that a lab has from the lab it starts from must be the same in
// both, unless the lab has a task in it, or says why it is another:
//
//	//lab:differs the manager also starts the reconciler
//
// A lab that starts from another one has all its files, except those that say why they are about the earlier lab alone:
//
//	#lab:alone the zombie belongs to this lab's second half
//
// A lab that begins nearly empty has a solution with a file skeleton.txt, which names the files and folders that the
// lab has.
package skeleton
