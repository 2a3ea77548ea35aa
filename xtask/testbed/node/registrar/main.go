// Tells the kubelet where a CSI driver listens.
// The project that usually does it cannot be built from Go modules alone.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type server struct {
	registration.UnimplementedRegistrationServer
	driver, socket string
}

func (s *server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              s.driver,
		Endpoint:          s.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (s *server) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		// The kubelet does not ask again: start anew.
		log.Fatalf("not registered: %s", status.Error)
	}
	log.Print("registered")
	return &registration.RegistrationStatusResponse{}, nil
}

func main() {
	driver := flag.String("driver", "", "name of the driver")
	socket := flag.String("socket", "", "its socket, by the path that the kubelet knows")
	dir := flag.String("registry", "/var/lib/kubelet/plugins_registry", "where the kubelet looks for plugins")
	flag.Parse()
	// The kubelet calls the driver at once.
	for {
		connection, err := net.Dial("unix", *socket)
		if err == nil {
			connection.Close()
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	path := filepath.Join(*dir, *driver+"-reg.sock")
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	registration.RegisterRegistrationServer(grpcServer, &server{driver: *driver, socket: *socket})
	log.Fatal(grpcServer.Serve(listener))
}
