//go:build tools

// Pins kwok, the fake kubelet of the test bed, and everything it is built from.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
