//go:build tools

// Pins helm, with which the tests read the chart, and everything it is built from.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
