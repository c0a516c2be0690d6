// Kubernetes' control plane for tests: kube-apiserver and kube-controller-manager in one executable, which is the one
// its base name says (it is run through symlinks). etcd and kubectl are executables of their own: the packages of these
// two alone take 20 to 40 ms of processor time at each start.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	default:
		fmt.Fprintf(os.Stderr, "Cannot run %q: it is neither kube-apiserver nor kube-controller-manager\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
