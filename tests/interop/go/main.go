// Asks a node as Go's gRPC library does: so many calls at once, each counted by how it ended.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// raw passes messages through as bytes, so that no generated code is needed.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, into any) error {
	*into.(*[]byte) = data.Materialize()
	return nil
}

// question is a RateLimitRequest: domain "shop", one descriptor {tenant: acme}.
func question() []byte {
	field := func(number byte, value []byte) []byte {
		return append([]byte{number<<3 | 2, byte(len(value))}, value...)
	}
	entry := append(field(1, []byte("tenant")), field(2, []byte("acme"))...)
	return append(field(1, []byte("shop")), field(2, field(1, entry))...)
}

func trust(ca, cert, key string) (credentials.TransportCredentials, error) {
	if ca == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", ca)
	}
	config := &tls.Config{RootCAs: roots}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

func run() error {
	address := flag.String("address", "", "host:port or unix:///path")
	calls := flag.Int("calls", 1000, "how many; 0: until standard input ends")
	workers := flag.Int("workers", 16, "how many at once")
	ca := flag.String("ca", "", "authority of the server; none: plain text")
	cert := flag.String("cert", "", "the client's certificate")
	key := flag.String("key", "", "its key")
	flag.Parse()
	trusted, err := trust(*ca, *cert, *key)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient(*address,
		grpc.WithTransportCredentials(trusted),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.WaitForReady(true)))
	if err != nil {
		return err
	}
	defer connection.Close()

	work := make(chan struct{})
	go func() {
		defer close(work)
		ended := make(chan struct{})
		if *calls == 0 {
			go func() { os.Stdin.Read(make([]byte, 1)); close(ended) }()
		}
		for sent := 0; *calls == 0 || sent < *calls; sent++ {
			select {
			case work <- struct{}{}:
			case <-ended:
				return
			}
		}
	}()
	var group sync.WaitGroup
	var lock sync.Mutex
	outcomes := map[string]int{}
	for range *workers {
		group.Go(func() {
			for range work {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				var answer []byte
				err := connection.Invoke(ctx, method, question(), &answer)
				cancel()
				lock.Lock()
				outcomes[status.Code(err).String()]++
				if err != nil && outcomes[status.Code(err).String()] == 1 {
					fmt.Fprintln(os.Stderr, err)
				}
				lock.Unlock()
			}
		})
	}
	group.Wait()
	for code, count := range outcomes {
		fmt.Printf("%s %d\n", code, count)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
