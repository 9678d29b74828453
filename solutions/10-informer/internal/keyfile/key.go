// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keyfile

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Parse reads one SSH public key, and returns its type and the key in base64, with a space between them, which is the
// part of a line that sshd needs. It leaves out a comment. Text with more or less than one key is an error.
func Parse(text string) (string, error) {
	//lab:begin parse
	// A line break begins another line of the file, with any contents. ParseAuthorizedKey skips lines that it can't read,
	// so it would not report them.
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "\n\r\x00") {
		return "", errors.New("it has more than one line")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return "", errors.New("it is no SSH public key, such as the file id_ed25519.pub has one")
	}
	// Options say what sshd runs for a user, and from where: command="…", environment="…". They are for the node's
	// administrator to give.
	if len(options) > 0 {
		return "", fmt.Errorf("it has options, which are not allowed: %s", strings.Join(options, ","))
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), nil
	//lab:else
	// // TODO(lab): 1. Let golang.org/x/crypto/ssh read the key. A user who can write data.key must not be able to write
	// // more than one key into the file: think of line breaks, and of options in front of a key (man sshd,
	// // AUTHORIZED_KEYS FILE FORMAT).
	// return text, nil
	//lab:end
}
