// Calls CNI plugins as container runtimes do: by the libraries that they are
// made with. containerd's is go-cni; what CRI-O calls besides, GC, is libcni's.
//
//	cnicall CONF_DIR BIN_DIR VERB [ID NETNS | ID...]
//
// VERB is status, setup, check or remove, with the container and its network
// namespace, or gc, with the containers that are there.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

// As containerd names a pod's interface.
const ifname = "eth0"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: cnicall CONF_DIR BIN_DIR VERB [ID NETNS | ID...]")
	}
	confDir, binDir, verb, rest := args[0], args[1], args[2], args[3:]
	if verb == "gc" {
		return collect(confDir, binDir, rest)
	}
	cni, err := gocni.New(
		gocni.WithMinNetworkCount(1),
		gocni.WithPluginConfDir(confDir),
		gocni.WithPluginDir([]string{binDir}),
		gocni.WithInterfacePrefix("eth"),
	)
	if err != nil {
		return err
	}
	if err := cni.Load(gocni.WithDefaultConf); err != nil {
		return err
	}
	if verb == "status" {
		return cni.Status()
	}
	if len(rest) != 2 {
		return fmt.Errorf("%s wants a container and a network namespace", verb)
	}
	return attach(cni, verb, rest[0], rest[1])
}

// As containerd's CRI plugin passes a pod on.
func attach(cni gocni.CNI, verb, id, netns string) error {
	ctx := context.Background()
	options := []gocni.NamespaceOpts{
		gocni.WithLabels(map[string]string{
			"K8S_POD_NAMESPACE":          "default",
			"K8S_POD_NAME":               id,
			"K8S_POD_INFRA_CONTAINER_ID": id,
			"K8S_POD_UID":                id,
			"IgnoreUnknown":              "1",
		}),
		gocni.WithCapability("io.kubernetes.cri.pod-annotations", map[string]string{}),
	}
	switch verb {
	case "setup":
		result, err := cni.Setup(ctx, id, netns, options...)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(result)
	case "check":
		return cni.Check(ctx, id, netns, options...)
	case "remove":
		return cni.Remove(ctx, id, netns, options...)
	}
	return fmt.Errorf("no verb %q", verb)
}

// CRI-O's library does this with all pods that it knows.
func collect(confDir, binDir string, ids []string) error {
	files, err := libcni.ConfFiles(confDir, []string{".conflist"})
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no configuration in %s", filepath.Clean(confDir))
	}
	sort.Strings(files)
	list, err := libcni.ConfListFromFile(files[0])
	if err != nil {
		return err
	}
	valid := []types.GCAttachment{}
	for _, id := range ids {
		valid = append(valid, types.GCAttachment{ContainerID: id, IfName: ifname})
	}
	config := libcni.NewCNIConfig([]string{binDir}, nil)
	return config.GCNetworkList(context.Background(), list, &libcni.GCArgs{ValidAttachments: valid})
}
