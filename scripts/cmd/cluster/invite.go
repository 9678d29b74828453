// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/classes/class"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
)

// classFlags name the cluster of a class and the folder of its kubeconfigs.
type classFlags struct {
	name, context, out string
}

func (f *classFlags) add(command *cobra.Command) {
	nameFlag(command, &f.name)
	command.Flags().StringVar(&f.context, "context", "", "a context of your kubeconfig, instead of a kind cluster")
	command.Flags().StringVar(&f.out, "out", "", "the folder of the kubeconfigs (default: out/class in the checkout)")
	cli.Exclusive(command, "name", "context")
}

const day = 24 * time.Hour

// open finds the cluster. For a kind cluster it also finds the URL by which other machines reach it, if its profile
// allows that.
func (f *classFlags) open(ctx context.Context) (*class.Class, error) {
	env, err := environment.Find(f.name)
	if err != nil {
		return nil, err
	}
	opened := &class.Class{Out: f.out}
	if opened.Out == "" {
		opened.Out = filepath.Join(env.Root, "out", "class")
	}
	if f.context != "" {
		cluster, err := existing.Open(ctx, "", f.context)
		if err != nil {
			return nil, err
		}
		opened.Config = cluster.Config()
		return opened, nil
	}
	found, err := env.Cluster.Find(ctx)
	if err != nil {
		return nil, err
	}
	if found.State != kind.Made {
		return nil, fmt.Errorf("there is no cluster %s for a class: "+
			"`make cluster PROFILE=classroom` creates one, "+
			"and `make cluster-status` shows which clusters exist", env.Cluster.Name)
	}
	if opened.Config, err = env.Cluster.Config(); err != nil {
		return nil, err
	}
	profile, err := kind.LoadProfile(found.Marker.Profile)
	if err != nil {
		return nil, err
	}
	opened.Server = serverFor(opened.Config, profile.Ports(), kind.Addresses())
	return opened, nil
}

// serverFor returns the URL by which other machines reach the API server of a kind cluster. It is empty if they can't.
func serverFor(config *rest.Config, ports []kind.Port, addresses []string) string {
	host, err := url.Parse(config.Host)
	if err != nil || len(addresses) == 0 {
		return ""
	}
	for _, port := range ports {
		if ip := net.ParseIP(port.Address); fmt.Sprint(port.Number) == host.Port() && ip != nil && !ip.IsLoopback() {
			address := port.Address
			if ip.IsUnspecified() {
				address = addresses[0]
			}
			return "https://" + net.JoinHostPort(address, host.Port())
		}
	}
	return ""
}

func inviteCommand() *cobra.Command {
	flags := &classFlags{}
	var server string
	var days int
	var renew bool
	command := &cobra.Command{
		Use: "invite ROSTER", Short: "Give each student of a roster a namespace, an account and a kubeconfig",
		Long: "invite reads a list of students, a line NAME or NAME,EMAIL for each, " +
			"and gives each a namespace with limits, an\n" +
			"account that can work there and nowhere else, and a kubeconfig that expires. Inviting again adds new\n" +
			"students and changes nothing for the others. An invalid line is an error, and then nothing is changed.",
		Args: oneRoster,
		RunE: func(command *cobra.Command, args []string) error {
			if days < 1 {
				return fmt.Errorf("--days %d: a kubeconfig must be valid for at least a day", days)
			}
			students, err := class.ReadRoster(args[0])
			if err != nil {
				return err
			}
			opened, err := flags.open(command.Context())
			if err != nil {
				return err
			}
			if server != "" {
				if opened.Server, err = parseServer(server); err != nil {
					return err
				}
			}
			opened.Lifetime, opened.Renew = time.Duration(days)*day, renew
			var invited []class.Invited
			err = withBar(fmt.Sprintf("invite %d students", len(students)), opened, func() (err error) {
				invited, err = opened.Invite(command.Context(), students)
				return err
			})
			if err != nil {
				return err
			}
			if err := showInvited(os.Stdout, invited); err != nil {
				return err
			}
			return warn(command.Context(), opened, invited)
		},
	}
	flags.add(command)
	command.Flags().StringVar(&server, "server", "",
		"the API server's URL as students reach it (default: this machine's, if the cluster listens for others)")
	command.Flags().IntVar(&days, "days", int(class.DefaultLifetime/day), "how many days a kubeconfig is valid")
	command.Flags().BoolVar(&renew, "renew", false, "create new kubeconfigs, even if the old ones are still valid")
	return command
}

func oneRoster(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name the roster: a file with a line NAME or NAME,EMAIL for each student")
	}
	return nil
}

func parseServer(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return "", fmt.Errorf("--server %s: write a URL as https://192.0.2.7:6443", server)
	}
	return server, nil
}

// withBar shows the progress of a class.
func withBar(what string, opened *class.Class, do func() error) error {
	bar := progress.Start(os.Stderr, what)
	opened.Progress = func(done, total int, what string) { bar.Set(what, done, total) }
	if err := do(); err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	return nil
}

func showInvited(out io.Writer, invited []class.Invited) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STUDENT\tNAMESPACE\tEXPIRES\tKUBECONFIG")
	for _, student := range invited {
		note := ""
		if !student.New {
			note = " (as it was)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s%s\n",
			student.Name, student.Namespace(), student.Expires.Local().Format("2006-01-02 15:04"), student.Kubeconfig, note)
	}
	return table.Flush()
}

// warn tries the first kubeconfig as its student would, and prints what an instructor should know before distributing
// the kubeconfigs.
func warn(ctx context.Context, opened *class.Class, invited []class.Invited) error {
	if err := class.Try(ctx, invited[0]); err != nil {
		return fmt.Errorf("all students are invited, but the first kubeconfig does not work from this machine; "+
			"if students reach the cluster by another address, name it with --server: %w", err)
	}
	for _, student := range invited {
		// The server may issue a shorter lifetime than was requested. It is the same for all students.
		if student.New && time.Until(student.Expires) < opened.Lifetime-time.Hour {
			fmt.Fprintf(os.Stderr, "\nThe cluster issues no tokens for %.0f days: these expire at %s. "+
				"Invite the students again before then.\n",
				opened.Lifetime.Hours()/24, student.Expires.Local().Format("2006-01-02 15:04"))
			break
		}
	}
	server := opened.Server
	if server == "" {
		server = opened.Config.Host
	}
	if parsed, err := url.Parse(server); err == nil && isLoopback(parsed.Hostname()) {
		fmt.Fprintf(os.Stderr,
			"\nThese kubeconfigs use %s, which only this machine can reach: the classroom profile listens for others, "+
				"and --server names the address.\n", server)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
