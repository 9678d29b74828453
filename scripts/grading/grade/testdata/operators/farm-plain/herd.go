// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// object is a JSON object. Its numbers stay as they were written.
type object map[string]any

func decode(r io.Reader) (object, error) {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	var o object
	err := decoder.Decode(&o)
	return o, err
}

func encode(o any) []byte {
	content, err := json.Marshal(o)
	if err != nil {
		panic(err) // a value read from JSON can be written as JSON
	}
	return content
}

// at returns the object in a field. It is empty if there is none.
func (o object) at(name string) object {
	switch found := o[name].(type) {
	case object:
		return found
	case map[string]any:
		return found
	}
	return object{}
}

func (o object) text(name string) string { s, _ := o[name].(string); return s }

func (o object) copy() object {
	c, err := decode(bytes.NewReader(encode(o)))
	if err != nil {
		panic(err)
	}
	return c
}

// change is a line of the file. Object is the llama after the change, or the deleted one, and Before the llama before
// the change.
type change struct {
	Version int64  `json:"version"`
	Type    string `json:"type"`
	Object  object `json:"object"`
	Before  object `json:"before,omitempty"`
}

// kept is how many changes are remembered for watches.
const kept = 300

// herd is the store: a file to which each change is appended before a client sees it.
type herd struct {
	mutex   sync.Mutex
	file    *os.File
	version int64
	llamas  map[string]object
	changes []change
	news    chan struct{} // closed at the next change
}

func open(path string) (*herd, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	h := &herd{file: file, llamas: map[string]object{}, news: make(chan struct{})}
	var whole int64 // data after the last complete line was never acknowledged
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var c change
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&c); err != nil {
			return nil, fmt.Errorf("%s, after %d bytes: %w", path, whole, err)
		}
		whole += int64(len(line))
		h.take(c)
	}
	if err := file.Truncate(whole); err != nil {
		return nil, err
	}
	if _, err := file.Seek(whole, io.SeekStart); err != nil {
		return nil, err
	}
	if whole == 0 {
		return h, h.begin()
	}
	return h, nil
}

func key(o object) string {
	return o.at("metadata").text("namespace") + "/" + o.at("metadata").text("name")
}

// take applies a change.
func (h *herd) take(c change) {
	h.version = c.Version
	if c.Type == "DELETED" {
		delete(h.llamas, key(c.Object))
	} else {
		h.llamas[key(c.Object)] = c.Object
	}
	if h.changes = append(h.changes, c); len(h.changes) > kept {
		h.changes = slices.Clone(h.changes[1:])
	}
}

// put writes a change to the disk, and then publishes it. It sets the version of the object. The caller holds the
// mutex.
func (h *herd) put(kind string, o object) error {
	next := h.version + 1
	o.at("metadata")["resourceVersion"] = strconv.FormatInt(next, 10)
	c := change{Version: next, Type: kind, Object: o, Before: h.llamas[key(o)]}
	at, err := h.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err = h.file.Write(append(encode(c), '\n')); err == nil {
		err = h.file.Sync()
	}
	if err != nil { // an incomplete line must never be read
		if undo := h.file.Truncate(at); undo != nil {
			panic(undo)
		}
		_, _ = h.file.Seek(at, io.SeekStart)
		return err
	}
	h.take(c)
	close(h.news)
	h.news = make(chan struct{})
	return nil
}

// at returns the llamas at a version, and whether they are still known. The caller holds the mutex.
func (h *herd) at(version int64) (map[string]object, bool) {
	if version > h.version || len(h.changes) > 0 && version < h.changes[0].Version-1 {
		return nil, false
	}
	then := map[string]object{}
	for name, llama := range h.llamas {
		then[name] = llama
	}
	for _, c := range slices.Backward(h.changes) {
		if c.Version <= version {
			break
		}
		if c.Before == nil {
			delete(then, key(c.Object))
		} else {
			then[key(c.Object)] = c.Before
		}
	}
	return then, true
}

// after returns the changes since a version, whether all of them are known, and a channel that is closed at the next
// change.
func (h *herd) after(version int64) ([]change, bool, <-chan struct{}) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.changes) > 0 && version < h.changes[0].Version-1 {
		return nil, false, nil
	}
	from := slices.IndexFunc(h.changes, func(c change) bool { return c.Version > version })
	if from < 0 {
		return nil, true, h.news
	}
	return slices.Clone(h.changes[from:]), true, h.news
}

// born sets the fields that every new object gets.
func born(o object) {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	o.at("metadata")["uid"] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	o.at("metadata")["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
}

// begin puts the first llamas into an empty farm.
func (h *herd) begin() error {
	for _, l := range []struct{ namespace, name, weight, height string }{
		{"default", "carla", "130.5", "1.1"}, {"farm", "pedro", "0.1", "0.3"},
	} {
		o := object{
			"apiVersion": groupVersion, "kind": "Llama", "metadata": object{"namespace": l.namespace, "name": l.name},
			"spec": object{"weight": json.Number(l.weight), "height": json.Number(l.height)},
		}
		born(o)
		if err := h.put("ADDED", o); err != nil {
			return err
		}
	}
	return nil
}
