// What the lab's pods run, from an image with nothing else in it:
//
//	podtool pause                     sleeps, as the first process of a pod or of a node: reaps orphans, ends at SIGTERM
//	podtool serve                     answers HTTP on :8080 and UDP on :9000 with the host's name and the caller's address
//	podtool get URL                   prints the answer to one request over a connection of its own
//	podtool udp ADDRESS               prints the answer to one datagram, sent again until there is one
//	podtool traffic URL...            asks each URL again and again and keeps a count; serves the counts on :8080
//	podtool once URL                  waits until the URL answers, once, and ends: a job
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	httpPort       = ":8080"
	udpPort        = ":9000"
	requestTimeout = 5 * time.Second
	// For an answer of a machine that is slow: what its network lost is known by what was sent again.
	slowTimeout = 60 * time.Second
	// The kernel sends what starts a connection again after 1, 2 and 4 seconds.
	maxResent = 2
	pause     = 20 * time.Millisecond
	tick      = 20 * time.Millisecond
	patience  = 60 * time.Second
)

func main() {
	log.SetFlags(0)
	verb, args := "", []string{}
	if len(os.Args) > 1 {
		verb, args = os.Args[1], os.Args[2:]
	}
	var err error
	switch {
	case verb == "pause":
		sleep()
	case verb == "serve":
		err = serve()
	case verb == "get" && len(args) == 1:
		text, _, failure := get(args[0], requestTimeout)
		err = show(text, failure)
	case verb == "udp" && len(args) == 1:
		err = show(datagram(args[0]))
	case verb == "traffic" && len(args) > 0:
		err = traffic(args)
	case verb == "once" && len(args) == 1:
		err = once(args[0])
	default:
		err = errors.New("usage: podtool pause | serve | get URL | udp ADDRESS | traffic URL... | once URL")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// endAtTerm: a first process has no default action for signals.
func endAtTerm() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ends
		os.Exit(0)
	}()
}

func sleep() {
	endAtTerm()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve() error {
	endAtTerm()
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	conn, err := net.ListenPacket("udp", udpPort)
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 1500)
		for {
			_, from, err := conn.ReadFrom(buffer)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Fprintf(packetWriter{conn, from}, "%s %s\n", name, hostOf(from.String()))
		}
	}()
	return http.ListenAndServe(httpPort, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s\n", name, hostOf(r.RemoteAddr))
	}))
}

type packetWriter struct {
	conn net.PacketConn
	to   net.Addr
}

func (p packetWriter) Write(data []byte) (int, error) { return p.conn.WriteTo(data, p.to) }

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func show(text string, err error) error {
	if err == nil {
		_, err = io.WriteString(os.Stdout, text)
	}
	return err
}

// get returns the answer, and how often the kernel had to send a packet again.
// It uses a new connection every time: an old one could hide that no new one comes about. It ends the connection itself,
// without keeping it: where the server ends it, its kernel remembers the ports for a minute, and may answer the SYN of
// another one with the same ports, made by a Service or past it, as if it were a late packet of the former one.
func get(url string, timeout time.Duration) (string, int, error) {
	client := http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: -1}}
	var connected atomic.Bool
	var used net.Conn
	trace := httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		used = info.Conn
		connected.Store(true)
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), &trace), "GET", url, nil)
	if err != nil {
		return "", 0, err
	}
	start := time.Now()
	standstill := watchStandstill()
	response, err := client.Do(request)
	longest := standstill()
	if err != nil {
		return "", 0, fmt.Errorf("%s to %s, connected: %t, this process stood still for %v at most: %w",
			start.Format(time.StampMilli), time.Now().Format(time.StampMilli), connected.Load(), longest, err)
	}
	defer response.Body.Close()
	// Once the body is read the connection is closed.
	resent := resentBy(used)
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("Cannot get %q: %s", url, response.Status)
	}
	return string(body), resent, err
}

// resentBy is how many packets of a connection the kernel has sent again, those that started it included.
func resentBy(conn net.Conn) int {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		log.Fatal(err)
	}
	resent := 0
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			log.Fatal(err)
		}
		resent = int(info.Total_retrans)
	})
	return resent
}

// watchStandstill returns what ends it and tells how long this process had no processor, at most.
func watchStandstill() func() time.Duration {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		var most time.Duration
		for last := time.Now(); ; {
			select {
			case <-stop:
				longest <- max(most, time.Since(last))
				return
			case <-ticker.C:
				most = max(most, time.Since(last))
				last = time.Now()
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return (<-longest).Round(time.Millisecond)
	}
}

func datagram(address string) (string, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	buffer := make([]byte, 1500)
	for deadline := time.Now().Add(requestTimeout); time.Now().Before(deadline); {
		if _, err = conn.Write([]byte("?")); err != nil {
			return "", err
		}
		conn.SetReadDeadline(time.Now().Add(requestTimeout / 10))
		var n int
		if n, err = conn.Read(buffer); err == nil {
			return string(buffer[:n]), nil
		}
	}
	return "", err
}

// counts are what one URL's requests came to.
type counts struct {
	URL       string `json:"url"`
	Done      int    `json:"done"`
	Failed    int    `json:"failed"`
	LongestMs int64  `json:"longestMs"`
	Last      string `json:"last,omitempty"`
}

func traffic(urls []string) error {
	endAtTerm()
	var mutex sync.Mutex
	all := make([]counts, len(urls))
	for i, url := range urls {
		all[i].URL = url
		go func() {
			for {
				start := time.Now()
				_, resent, err := get(url, slowTimeout)
				took := time.Since(start)
				if err == nil && took > requestTimeout && resent > maxResent {
					err = fmt.Errorf("%s: answered after %v, packets were sent again %d times",
						start.Format(time.StampMilli), took.Round(time.Millisecond), resent)
				}
				mutex.Lock()
				all[i].LongestMs = max(all[i].LongestMs, took.Milliseconds())
				if err == nil {
					all[i].Done++
				} else {
					all[i].Failed++
					all[i].Last = err.Error()
				}
				mutex.Unlock()
				time.Sleep(pause)
			}
		}()
	}
	return http.ListenAndServe(httpPort, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		json.NewEncoder(w).Encode(all)
	}))
}

func once(url string) error {
	deadline := time.Now().Add(patience)
	for {
		_, _, err := get(url, requestTimeout)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}
