//go:build tools

// Pins the scheduler and the controllers of Volcano and everything they are built from.
package tools

import (
	_ "volcano.sh/volcano/cmd/controller-manager"
	_ "volcano.sh/volcano/cmd/scheduler"
)
