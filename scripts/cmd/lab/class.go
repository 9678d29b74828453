// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/classes/course"
	"lva.io/operators/scripts/classes/course/grader"
	"lva.io/operators/scripts/classes/course/intake"
	"lva.io/operators/scripts/classes/course/misconception"
	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/classes/course/rules"
	"lva.io/operators/scripts/classes/course/similarity"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/proving/proof"
)

// submissionsDir is the folder for unpacked submissions, below the folder of a class.
const submissionsDir = "submissions"

// classFlags are the flags of `lab class`.
type classFlags struct {
	labs        []string
	out, rules  string
	sandbox     grade.Sandbox
	slots       int
	onlyChanged bool
	seed        uint32
}

func classCommand() *cobra.Command {
	var flags classFlags
	command := &cobra.Command{
		Use: "class --lab N SUBMISSIONS", GroupID: groupInstructors,
		Short: "Grade the submissions of a class, and write its gradebook",
		Long: "class grades what a class handed in, several submissions at a time, " +
			"and writes a gradebook, a page for you, reports, and an archive\n" +
			"with feedback for each student. Submissions are a folder of folders or archives (zip, tar, tar.gz; " +
			"also the exports of Gradescope and\n" +
			"Moodle), or a roster: a CSV file with the columns student and source, and if you like lab and commit.\n\n" +
			"Each result is kept as soon as it is known. After Ctrl-C, a crash or a power failure, " +
			"the same command continues where it was. Run again\n" +
			"later, it grades what is new or different, and what had no grade because of the machine.\n\n" +
			"Submissions run in a sandbox, and nothing is graded on a machine that can't build one. " +
			"The exit code is 0 only if nothing was left without a\n" +
			"grade for a reason that is not the student's. " +
			"docs/guides/classrooms.md explains the steps from a roster to published grades.",
		Example: "  lab class --lab 2 ~/Downloads/submissions\n  lab class --lab 2,3 roster.csv --rules class.yaml\n" +
			"  lab class --lab 2 ~/Downloads/submissions.csv --slots 6 --out ~/course/lab-2",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("class needs one folder of submissions, or one roster, " +
					"as in `lab class --lab 2 ~/Downloads/submissions`")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			return gradeClass(command.Context(), args[0], &flags)
		},
	}
	command.Flags().StringSliceVar(&flags.labs, "lab", nil,
		"the labs to grade, by their numbers or names, with commas between them")
	command.Flags().Var((*cli.Folder)(&flags.out), "out",
		"the folder for results, which also has what is known of earlier runs (default: out/class and the lab's name)")
	command.Flags().StringVar(&flags.rules, "rules", "",
		"a class.yaml with deadlines, penalties, weights and comments (default: no deadlines, the best attempt counts)")
	command.Flags().Var((*cli.Count)(&flags.slots), "slots",
		"how many to grade in parallel (default: as many as processors and memory allow)")
	command.Flags().BoolVar(&flags.onlyChanged, "only-changed", false, "keep results of equal work, "+
		"even if another version of the grader produced them (default: grade them again)")
	command.Flags().Uint32Var(&flags.seed, "seed", 0,
		"what decides faults and stories, for all students (default: drawn in the first run, and kept)")
	flags.sandbox = grade.SandboxRequired
	command.Flags().Var(&flags.sandbox, "sandbox",
		"sandbox for submissions: refuse to grade without it (required), "+
			"use what this machine supports (auto), or run them as you (off)")
	return command
}

// classRun is one grading of a class.
type classRun struct {
	*classFlags
	repo *checkout.Checkout
	labs []*manifest.Lab
	// source is the path of the submissions, and out is the folder for the results. Both are absolute.
	source, out string
	rules       *rules.Rules
}

// gradeClass grades a class. It checks the arguments first, before the steps that take time.
func gradeClass(ctx context.Context, source string, flags *classFlags) (err error) {
	r := &classRun{classFlags: flags, rules: rules.Default()}
	if err := r.check(source); err != nil {
		return err
	}
	journal, err := course.OpenJournal(r.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	if err := course.RemoveResults(r.out); err != nil {
		return err
	}
	class := &course.Class{Title: cmp.Or(r.rules.Title, titleOf(r.labs)), Rules: r.rules}
	fmt.Printf("Reading %s.\n", source)
	if class.Submissions, err = r.read(ctx); err != nil {
		return err
	}
	labOptions, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	graders, err := grader.New(ctx, grader.Options{Labs: labOptions, Assets: r.repo.Assets, Sandbox: r.sandbox})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, graders.Close()) }()
	if err := r.describe(class, graders); err != nil {
		return err
	}
	if class.Seed, err = journal.Seed(r.seed, rand.Uint32); err != nil {
		return err
	}
	r.notice(class, journal)
	slots, err := r.slotsFor(labOptions)
	if err != nil {
		return err
	}
	jobs := class.Jobs()
	fmt.Printf("%s of %s, %d at a time.\n",
		english.Plural(len(jobs), "different submission", ""), english.Plural(len(class.Rows()), "student", ""), slots)
	class.Results, err = course.Run(ctx, course.Options{
		Jobs: jobs, Grader: graders, Journal: journal, Slots: slots,
		Deployed: max(1, runtime.NumCPU()), OnlyChanged: r.onlyChanged,
		Board: course.NewBoard(os.Stdout, terminal.Detect(os.Stdout, os.Getenv)),
	})
	if ctx.Err() != nil {
		fmt.Printf("Interrupted: %d of %d are graded, and kept in %s. To continue, run the same command again.\n",
			course.Decided(class.Results), len(jobs), cli.Relative(r.out))
		return cli.ErrReported
	}
	if err != nil {
		return err
	}
	return r.finish(class)
}

// titleOf returns the title of a class whose class.yaml has none: "Labs 2 and 3".
func titleOf(labs []*manifest.Lab) string {
	var numbers []string
	for _, lab := range labs {
		numbers = append(numbers, strconv.Itoa(lab.Number))
	}
	return english.PluralWord(len(labs), "Lab", "") + " " + english.WordSeries(numbers, "and")
}

// check validates the arguments.
func (r *classRun) check(source string) (err error) {
	if r.repo, err = checkout.Find(); err != nil {
		return err
	}
	if len(r.classFlags.labs) == 0 {
		return errors.New("--lab is missing: name the lab that was handed in, as in --lab 2; `lab labs` lists them")
	}
	var names []string
	for _, ref := range r.classFlags.labs {
		lab, err := r.repo.Labs.Lab(ref)
		if err != nil {
			return err
		}
		if slices.Contains(r.labs, lab) {
			return fmt.Errorf("--lab names lab %d twice: leave one of them out", lab.Number)
		}
		r.labs = append(r.labs, lab)
	}
	slices.SortFunc(r.labs, func(a, b *manifest.Lab) int { return a.Number - b.Number })
	for _, lab := range r.labs {
		names = append(names, lab.Name)
	}
	if r.source, err = filepath.Abs(source); err != nil {
		return err
	}
	if _, err := os.Stat(r.source); err != nil {
		return fmt.Errorf("%s is neither a folder nor a roster: name what the class handed in", source)
	}
	if r.classFlags.rules != "" {
		if r.rules, err = rules.Load(r.classFlags.rules); err != nil {
			return err
		}
	}
	r.out = cmp.Or(r.classFlags.out, filepath.Join(r.repo.Root, "out", "class", strings.Join(names, "+")))
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if isInside(r.source, r.out) {
		return fmt.Errorf("the results would be among the submissions, in %s: choose another folder with --out",
			cli.Relative(r.out))
	}
	return nil
}

// isInside reports whether a path is a folder, or below it.
func isInside(dir, path string) bool {
	path, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(path)
}

// read finds the submissions.
func (r *classRun) read(ctx context.Context) ([]intake.Submission, error) {
	options := intake.Options{
		Source: r.source, Work: filepath.Join(r.out, submissionsDir), Deadline: r.rules.Deadline, Owns: ownsByGroup(r.repo),
	}
	for _, lab := range r.labs {
		var wanted intake.Lab
		wanted, options.Course = intakeLabs(r.repo, lab.Name)
		options.Labs = append(options.Labs, wanted)
	}
	return intake.Read(ctx, options)
}

// prepare builds what grading needs.
func (r *classRun) prepare(ctx context.Context) ([]certify.Options, error) {
	harness, err := proof.Harness(ctx, r.repo)
	if err != nil {
		return nil, err
	}
	return certify.Prepare(ctx, certify.Options{Checkout: r.repo}, harness, r.labs...)
}

// describe adds the labs to the class.
func (r *classRun) describe(class *course.Class, graders *grader.Grader) error {
	class.Walls = graders.Walls()
	for _, lab := range r.labs {
		described, err := graders.Describe(lab.Name)
		if err != nil {
			return err
		}
		all := lab.Own()
		if own := lab.OwnTests(); own != nil {
			all = append(all, *own)
		}
		for _, check := range all {
			described.Checks = append(described.Checks, page.Check{
				ID: check.ID, Title: check.Title, Points: check.Points, Lecture: check.Lecture,
			})
		}
		class.Labs = append(class.Labs, described)
	}
	return nil
}

// notice prints what the instructor should know before the grading begins.
func (r *classRun) notice(class *course.Class, journal *course.Journal) {
	if r.sandbox == grade.SandboxOff {
		class.Notices = append(class.Notices, "There was no sandbox: a submission could read and change what you can.")
		fmt.Println("There is no sandbox: submissions run as you. Continue only on a machine that holds no secrets.")
	}
	var students, labs []string
	for _, s := range class.Submissions {
		students = append(students, s.Student)
	}
	for i := range r.repo.Labs.Labs {
		labs = append(labs, r.repo.Labs.Labs[i].Name)
	}
	for _, unknown := range r.rules.Unknown(students, labs) {
		text := filepath.Base(r.classFlags.rules) + ", " + unknown
		class.Notices = append(class.Notices, text)
		fmt.Println(report.OneLine(text))
	}
	if n := journal.Damaged(); n > 0 {
		fmt.Printf("The journal has %s that can't be read: the submissions that they record are graded again.\n",
			english.Plural(n, "line", ""))
	}
}

// slotsFor returns how many submissions are graded at a time.
func (r *classRun) slotsFor(labOptions []certify.Options) (int, error) {
	if r.slots > 0 {
		return r.slots, nil
	}
	free, err := course.FreeMemory()
	if err != nil {
		return 0, err
	}
	each := int64(course.MemoryOfProcess)
	if slices.ContainsFunc(labOptions, func(o certify.Options) bool { return o.Lab.NeedsNode(o.Lab.Stage) }) {
		each = course.MemoryOfNode
	}
	return course.Slots(runtime.NumCPU(), free, each), nil
}

// finish writes the results, and prints a summary.
func (r *classRun) finish(class *course.Class) error {
	about := course.About{
		Root: r.repo.Root, Misconceptions: map[string][]misconception.Known{},
		Code: map[string][]similarity.Document{}, Redactor: r.redactor(),
	}
	for _, lab := range r.labs {
		solution := r.repo.SolutionDir(lab)
		list, err := mutant.Load(solution)
		if err != nil {
			return err
		}
		about.Misconceptions[lab.Name], err = misconception.From(lab.Name, list, func(id string) string {
			check, err := lab.Check(id)
			if err != nil {
				return ""
			}
			return check.Lecture
		})
		if err != nil {
			return err
		}
		for _, dir := range []string{r.repo.Dir(lab), solution} {
			known, err := similarity.Folder(dir, dir)
			if err != nil {
				return err
			}
			about.Code[lab.Name] = append(about.Code[lab.Name], known)
		}
	}
	if err := course.WriteResults(r.out, class, about); err != nil {
		return err
	}
	return r.printSummary(class)
}

// redactor hides the folders of this machine from students.
func (r *classRun) redactor() *course.Redactor {
	folders := []string{r.repo.Root, r.out, r.source, os.TempDir(), gobuild.ModuleCache()}
	for _, find := range []func() (string, error){os.UserHomeDir, os.UserCacheDir, os.Getwd, process.Root} {
		if folder, err := find(); err == nil {
			folders = append(folders, folder)
		}
	}
	return course.NewRedactor(folders...)
}

// printSummary prints which submissions have no grade, and where the results are.
func (r *classRun) printSummary(class *course.Class) error {
	without, unusable := 0, 0
	for _, row := range class.Rows() {
		for _, cell := range row.Cells {
			switch {
			case !cell.Known:
				without++
				fmt.Println(report.OneLine(fmt.Sprintf("no grade: %s, %s: %s", row.Student, cell.Lab, cell.Problem)))
			case cell.Outcome == course.Unusable:
				unusable++
				fmt.Println(report.OneLine(fmt.Sprintf("unusable: %s, %s: %s", row.Student, cell.Lab, cell.Problem)))
			}
		}
	}
	if unusable > 0 {
		fmt.Printf("%s can't be graded: the comments in the gradebook also say why.\n",
			english.Plural(unusable, "submission", ""))
	}
	for _, line := range []struct{ what, name string }{
		{"The gradebook", course.GradebookFile},
		{"The page of the class", course.PageFile},
		{"Reports", course.StudentsDir},
		{"Archives for students", course.FeedbackDir},
	} {
		fmt.Printf("%-22s %s\n", line.what+":", cli.Relative(filepath.Join(r.out, line.name)))
	}
	if without > 0 {
		fmt.Printf("%s no grade because of the machine. Run the same command again to retry them.\n",
			english.PluralWord(without, strconv.Itoa(without)+" has", strconv.Itoa(without)+" have"))
		return cli.ErrReported
	}
	return nil
}
