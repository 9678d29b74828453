// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rootfs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// User is the user that a program runs as.
type User struct {
	ID, Group int
	// Groups are the groups of which the user is a member, according to the image.
	Groups []int
	// Home is the user's home folder.
	Home string
}

// User looks up a user in an image's own files. who is "name", "id", "name:group" or "id:group", or empty for root. The
// image need not know the ID. Then its group is 0.
func (s *Store) User(image Image, who string) (User, error) {
	name, group, hasGroup := strings.Cut(who, ":")
	if name == "" {
		name = "0"
	}
	user := User{Home: "/"}
	id, numberErr := parseID(name)
	user.ID = id
	entry := find(s.read(image, "etc/passwd"), func(fields []string) bool {
		const entryLength = 6
		return len(fields) >= entryLength && (fields[0] == name || numberErr == nil && fields[2] == name)
	})
	switch {
	case entry != nil:
		var err, groupErr error
		user.ID, err = parseID(entry[2])
		user.Group, groupErr = parseID(entry[3])
		if err = errors.Join(err, groupErr); err != nil {
			return user, fmt.Errorf("the user %q in /etc/passwd of the image %s: %w", name, image.Reference, err)
		}
		if entry[5] != "" {
			user.Home = entry[5]
		}
	case numberErr != nil:
		return user, fmt.Errorf("the image %s has no user %q in its /etc/passwd", image.Reference, name)
	}
	groups := s.read(image, "etc/group")
	if hasGroup {
		var err error
		if user.Group, err = parseID(group); err != nil {
			entry := find(groups, func(fields []string) bool { return len(fields) > 2 && fields[0] == group })
			if entry == nil {
				return user, fmt.Errorf("the image %s has no group %q in its /etc/group", image.Reference, group)
			}
			if user.Group, err = parseID(entry[2]); err != nil {
				return user, fmt.Errorf("the group %q in /etc/group of the image %s: %w", group, image.Reference, err)
			}
		}
	}
	if entry != nil {
		find(groups, func(fields []string) bool {
			const members = 3
			if len(fields) > members && slices.Contains(strings.Split(fields[members], ","), entry[0]) {
				if number, err := parseID(fields[2]); err == nil {
					user.Groups = append(user.Groups, number)
				}
			}
			return false
		})
	}
	return user, nil
}

// parseID parses the ID of a user or a group, from 0 to 2147483647, as other container runtimes do. The kernel ignores
// all but the last 32 bits of an ID, so 4294967296 would be root, and -1 would change nothing, so that a program would
// remain root.
func parseID(text string) (int, error) {
	id, err := strconv.ParseUint(text, 10, 31)
	return int(id), err
}

// find returns the fields of the first line for which wanted returns true.
func find(content string, wanted func(fields []string) bool) []string {
	for line := range strings.Lines(content) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); wanted(fields) {
			return fields
		}
	}
	return nil
}

// errNotPlain is returned for a file that is not a plain one: a folder, a FIFO, or the mark that the file is deleted.
var errNotPlain = errors.New("not a plain file")

// read returns the content of a plain file from the topmost layer that has it, or nothing if no layer has it, or if a
// layer above has replaced it with a file that is not plain.
func (s *Store) read(image Image, name string) string {
	folders := s.Folders(image)
	slices.Reverse(folders)
	for _, folder := range folders {
		content, err := readPlain(folder, name)
		if err == nil || errors.Is(err, errNotPlain) {
			return string(content)
		}
	}
	return ""
}

// readPlain reads a file of a layer. An image may have a FIFO at that name, to which no program ever writes.
func readPlain(layer, name string) ([]byte, error) {
	root, err := os.OpenRoot(layer)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotPlain
	}
	return root.ReadFile(name)
}
