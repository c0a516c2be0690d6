// etcd for tests: one member on loopback. It never calls fsync: a test's data need not outlive the machine.
package main

import (
	"flag"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	dataDir := flag.String("data-dir", "", "directory of the data")
	clientURL := flag.String("client-url", "http://127.0.0.1:2379", "where clients are served")
	peerURL := flag.String("peer-url", "http://127.0.0.1:2380", "where peers would be served")
	flag.Parse()
	if *dataDir == "" {
		log.Fatal("Cannot run etcd: --data-dir is empty")
	}
	config := embed.NewConfig()
	config.Dir = *dataDir
	config.ListenClientUrls = []url.URL{mustParse(*clientURL)}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ListenPeerUrls = []url.URL{mustParse(*peerURL)}
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	server, err := embed.StartEtcd(config)
	if err != nil {
		log.Fatalf("Cannot start etcd: %v", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
		server.Close()
	case err := <-server.Err():
		log.Fatalf("Cannot go on: %v", err)
	}
}

func mustParse(text string) url.URL {
	u, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return *u
}
