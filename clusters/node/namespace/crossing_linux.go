// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Crossing creates sockets in another network namespace. The process that serves the other end creates the socket there
// and passes its descriptor (SCM_RIGHTS, unix(7)). After that, the bytes of a connection take no detour. Several
// processes may hold the same end, because each request includes the socket for its answer.
type Crossing struct{ connection *net.UnixConn }

// question requests a socket. How is "dial", "listen" or "packet", or a key of the other side's Answers.
type question struct {
	How, Network, Address string
}

// refusal is the answer without a socket. With the number, the client can distinguish a port that is taken from one
// that is forbidden.
type refusal struct {
	Message string
	Number  syscall.Errno
}

func (r *refusal) Error() string { return r.Message }

func (r *refusal) Unwrap() error {
	if r.Number == 0 {
		return nil
	}
	return r.Number
}

const (
	// dialTimeout is how long the other side may try to connect.
	dialTimeout = 10 * time.Second
	// answerLimit bounds a message: a question, or an error.
	answerLimit = 4096
)

// CrossingPair creates the two ends of a crossing: one for the process that requests sockets, and one for the process
// that serves them.
func CrossingPair() (asks, serves *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a crossing between two networks: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "crossing"), os.NewFile(uintptr(ends[1]), "crossing"), nil
}

// NewCrossing returns the requesting end of a crossing. It takes ownership of the file.
func NewCrossing(end *os.File) (*Crossing, error) {
	connection, err := packets(end)
	if err != nil {
		return nil, fmt.Errorf("opening a crossing between two networks: %w", err)
	}
	return &Crossing{connection}, nil
}

func packets(end *os.File) (*net.UnixConn, error) {
	defer end.Close()
	connection, err := net.FileConn(end)
	if err != nil {
		return nil, err
	}
	unixConnection, ok := connection.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), connection.Close())
	}
	return unixConnection, nil
}

// Close closes our end.
func (c *Crossing) Close() error { return c.connection.Close() }

// DialContext connects from the other network. Network and address are those of net.Dial.
func (c *Crossing) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	file, err := c.ask(ctx, question{"dial", network, address})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileConn(file)
}

// Listen listens in the other network.
func (c *Crossing) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	file, err := c.ask(ctx, question{"listen", network, address})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// ListenPacket receives datagrams in the other network.
func (c *Crossing) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	file, err := c.ask(ctx, question{"packet", network, address})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FilePacketConn(file)
}

// Open requests a file other than a socket from the other side. key is one of its Answers.
func (c *Crossing) Open(ctx context.Context, key, argument string) (*os.File, error) {
	return c.ask(ctx, question{How: key, Address: argument})
}

func (c *Crossing) ask(ctx context.Context, q question) (*os.File, error) {
	file, err := c.exchange(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("%s %s %s in the other network: %w", q.How, q.Network, q.Address, err)
	}
	return file, nil
}

func (c *Crossing) exchange(ctx context.Context, q question) (*os.File, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := CrossingPair()
	if err != nil {
		return nil, err
	}
	_, _, err = c.connection.WriteMsgUnix(text, unix.UnixRights(int(theirs.Fd())), nil)
	theirs.Close()
	answer, openErr := packets(ours)
	if err := errors.Join(err, openErr); err != nil {
		return nil, err
	}
	defer answer.Close()
	stop := context.AfterFunc(ctx, func() { _ = answer.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	message, file, err := receive(answer)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case file != nil:
		return file, nil
	}
	var refused refusal
	if err := json.Unmarshal(message, &refused); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return nil, &refused
}

// receive reads one message and the descriptor that may have come with it.
func receive(connection *net.UnixConn) (message []byte, file *os.File, err error) {
	message, rights := make([]byte, answerLimit), make([]byte, unix.CmsgSpace(4))
	read, control, _, _, err := connection.ReadMsgUnix(message, rights)
	if err != nil {
		return nil, nil, err
	}
	if read == 0 && control == 0 {
		return nil, nil, io.EOF
	}
	files, err := Descriptors(rights[:control])
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		file = f // there is room for one descriptor only
	}
	return message[:read], file, nil
}

// Descriptors returns the files that came with a message.
func Descriptors(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		descriptors, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // a control message of another kind
		}
		for _, descriptor := range descriptors {
			unix.CloseOnExec(descriptor)
			files = append(files, os.NewFile(uintptr(descriptor), "passed"))
		}
	}
	return files, nil
}

// Answers handle requests for files other than sockets, by the word that the request begins with.
type Answers map[string]func(argument string) (*os.File, error)

// Dial connects to an address. It is (*net.Dialer).DialContext, or a function that accepts more addresses.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// ServeCrossing creates the sockets that the other side requests, until no process holds the other end any more. It
// takes ownership of the file.
func ServeCrossing(end *os.File, dial Dial, others Answers) error {
	connection, err := packets(end)
	if err != nil {
		return fmt.Errorf("serving a crossing between two networks: %w", err)
	}
	defer connection.Close()
	for {
		message, reply, err := receive(connection)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("serving a crossing between two networks: %w", err)
		case reply == nil:
			continue // the request has no socket for the answer
		}
		go answer(message, reply, dial, others)
	}
}

func answer(message []byte, reply *os.File, dial Dial, others Answers) {
	connection, err := packets(reply)
	if err != nil {
		return
	}
	defer connection.Close()
	var q question
	var file *os.File
	if err = json.Unmarshal(message, &q); err == nil {
		if other, known := others[q.How]; known {
			file, err = other(q.Address)
		} else {
			file, err = q.socket(dial)
		}
	}
	if err != nil {
		refused := refusal{Message: err.Error()}
		_ = errors.As(err, &refused.Number)
		text, _ := json.Marshal(refused) // can't fail: the fields are strings and a number
		_, _ = connection.Write(text)    // the client may have disconnected
		return
	}
	defer file.Close()
	_, _, _ = connection.WriteMsgUnix([]byte{'\n'}, unix.UnixRights(int(file.Fd())), nil)
}

// socket creates the socket in this process.
func (q question) socket(dial Dial) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var opened io.Closer
	var err error
	switch q.How {
	case "dial":
		opened, err = dial(ctx, q.Network, q.Address)
	case "listen":
		opened, err = net.Listen(q.Network, q.Address)
	case "packet":
		opened, err = net.ListenPacket(q.Network, q.Address)
	default:
		err = fmt.Errorf("unknown request %q", q.How)
	}
	if err != nil {
		return nil, err
	}
	if listener, ok := opened.(*net.UnixListener); ok {
		listener.SetUnlinkOnClose(false) // the descriptor that is passed on continues to listen
	}
	defer opened.Close()
	socket, ok := opened.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("a socket of network %q can't be passed", strings.ToLower(q.Network))
	}
	return socket.File()
}
