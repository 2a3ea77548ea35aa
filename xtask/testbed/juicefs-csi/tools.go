//go:build tools

// Pins the JuiceFS CSI driver of the test bed and everything it is built from.
package tools

import _ "github.com/juicedata/juicefs-csi-driver/cmd"
