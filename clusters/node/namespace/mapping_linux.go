// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// unclaimed is the beginning of a range of IDs that no system assigns. It is above the ranges that systemd assigns to
	// containers (systemd.io/UIDS-GIDS). Root takes the users of the node from this range, so that they are unknown on the
	// machine.
	unclaimed = 0x70000000
	// enough is the number of IDs that is sufficient for every image. The last of them is nobody.
	enough = 1 << 16
)

// Mapping maps the users and groups of a namespace to the machine's IDs (user_namespaces(7)). Root inside is 0.
type Mapping struct {
	Users, Groups []syscall.SysProcIDMap
	// subordinate reports that the IDs are subordinate ones, which only newuidmap and newgidmap may map.
	subordinate bool
}

// Choose returns the best mapping that this machine allows:
//
//   - Root uses a range that belongs to no user. A process that escapes from the namespaces has no rights at all.
//   - Other users are root inside. If the system delegates subordinate IDs (/etc/subuid) to them, those are the other
//     users.
//   - Without subordinate IDs there is only one ID, and all programs run as the same user.
func Choose() Mapping {
	if os.Geteuid() == 0 && hasCapability(unix.CAP_SETUID) && hasCapability(unix.CAP_SETGID) &&
		known("/proc/self/uid_map") && known("/proc/self/gid_map") {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: unclaimed, Size: enough}}
		return Mapping{Users: all, Groups: all}
	}
	own := func(id int) syscall.SysProcIDMap { return syscall.SysProcIDMap{ContainerID: 0, HostID: id, Size: 1} }
	m := Mapping{
		Users: []syscall.SysProcIDMap{own(os.Geteuid())}, Groups: []syscall.SysProcIDMap{own(os.Getegid())},
	}
	users, usersOK := subordinateRange("/etc/subuid")
	groups, groupsOK := subordinateRange("/etc/subgid")
	if _, err := exec.LookPath("newuidmap"); err == nil && usersOK && groupsOK {
		m.Users, m.Groups, m.subordinate = append(m.Users, users), append(m.Groups, groups), true
	}
	return m
}

// Alone returns a mapping of our own ID only.
func (m Mapping) Alone() Mapping { return Mapping{Users: m.Users[:1:1], Groups: m.Groups[:1:1]} }

// Owner returns the machine's user and group that are root inside.
func (m Mapping) Owner() (user, group int) { return m.Users[0].HostID, m.Groups[0].HostID }

// Single reports whether there is only one ID.
func (m Mapping) Single() bool { return len(m.Users) == 1 && m.Users[0].Size == 1 }

// SingleID reports whether the user namespace of this process has only one ID, so that chown and setuid fail.
func SingleID() bool {
	content, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(content))
	return err == nil && len(fields) == 3 && fields[2] == "1"
}

// hasCapability reports whether we have a capability.
func hasCapability(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[capability/32].Effective&(1<<(capability%32)) != 0
}

// known reports whether our own namespace maps the unclaimed IDs. A container may have fewer IDs.
func known(file string) bool {
	content, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		var first, outside, size uint64
		if n, _ := fmt.Sscan(line, &first, &outside, &size); n == 3 && first <= unclaimed && unclaimed+enough <= first+size {
			return true
		}
	}
	return false
}

// subordinateRange returns the first range of our user in a file of subordinate IDs (subuid(5)).
func subordinateRange(file string) (syscall.SysProcIDMap, bool) {
	content, err := os.Open(file)
	if err != nil {
		return syscall.SysProcIDMap{}, false
	}
	defer content.Close()
	name := ""
	if us, err := user.Current(); err == nil {
		name = us.Username
	}
	return rangeOf(content, name, strconv.Itoa(os.Getuid()))
}

func rangeOf(subordinates io.Reader, names ...string) (syscall.SysProcIDMap, bool) {
	for lines := bufio.NewScanner(subordinates); lines.Scan(); {
		owner, rest, _ := strings.Cut(lines.Text(), ":")
		first, count, _ := strings.Cut(rest, ":")
		from, fromErr := strconv.Atoi(first)
		size, sizeErr := strconv.Atoi(count)
		if fromErr != nil || sizeErr != nil || size < 1 || owner == "" {
			continue
		}
		if slices.Contains(names, owner) {
			return syscall.SysProcIDMap{ContainerID: 1, HostID: from, Size: min(size, enough-1)}, true
		}
	}
	return syscall.SysProcIDMap{}, false
}

// write maps the subordinate IDs for a process in a new user namespace.
func (m Mapping) write(pid int) error {
	for _, part := range []struct {
		helper string
		ids    []syscall.SysProcIDMap
	}{{"newuidmap", m.Users}, {"newgidmap", m.Groups}} {
		arguments := []string{strconv.Itoa(pid)}
		for _, id := range part.ids {
			arguments = append(arguments, strconv.Itoa(id.ContainerID), strconv.Itoa(id.HostID), strconv.Itoa(id.Size))
		}
		if output, err := exec.Command(part.helper, arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", part.helper, err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}
