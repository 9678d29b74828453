// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

// scenario is the life of an icecream, and the short one of another: it is made, changed, and deleted; somebody else
// changes their mind at once. Whatever goes wrong, everything is back in the end, and was never anywhere else.
func scenario(v visit) {
	long := v.make("quince", []string{"quince"}, "cream", "nuts")
	v.has("the ingredients of quince are taken", scenarioPatience, long, "flavour quince", "topping cream", "topping nuts")
	v.change(long, `{"spec":{"topping":["cherry"]}}`)
	v.has("when quince gets the topping cherry instead of cream and nuts, those go back and cherry is taken", scenarioPatience, long,
		"flavour quince", "topping cherry")
	short := v.make("rhubarb", []string{"rhubarb"})
	v.deleteAtOnce(short)
	v.delete(long)
	v.leaves("when quince and rhubarb are deleted, their ingredients go back, and they are gone", scenarioPatience, long, short)
	v.Settle(v.ctx, v.t)
	for _, o := range []order{long, short} {
		v.closed("nothing is taken for an icecream that is gone", o)
		v.takenAfter("the finalizer is on an icecream before the freezer is asked for anything", o)
		v.toppingsFirst("toppings go back before flavours", o)
	}
}
