// Kubernetes of the test bed in one static binary. It is built from Go modules
// because no release binary can be assumed to be at hand; a link named after a
// component, or the component as first argument, chooses what it is.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	component := filepath.Base(os.Args[0])
	if component == "kubernetes" && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		component = os.Args[0]
	}
	if server, found := servers[component]; found {
		os.Exit(cli.Run(server()))
	}
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		// CheckErr prints what kubectl users know and chooses the exit code.
		kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	default:
		names := []string{"etcd", "kubectl"}
		for name := range servers {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: kubernetes {%s} [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
}
