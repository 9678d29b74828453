// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper_test

import (
	"testing"

	"lva.io/operators/clusters/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.InsideGroup(m) }
