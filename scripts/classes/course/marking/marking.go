// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package marking grades what a class handed in, from reading the submissions to writing the gradebook. Each step
// belongs to another package: intake finds submissions, rules reads class.yaml, course and grader grade, and
// misconception and similarity compare. This package connects them, and prints what the instructor should know. It
// parses no flags.
package marking

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
)

// submissionsDir is the folder for unpacked submissions, below the folder of a class.
const submissionsDir = "submissions"

// Options configure the grading of a class.
type Options struct {
	// Labs are the numbers or names of the labs that were handed in.
	Labs []string
	// Folder is the folder for the results, which also has what is known of earlier runs. Default: out/class and the
	// labs' names.
	Folder string
	// Rules is a class.yaml. Default: no deadlines, the best attempt counts.
	Rules string
	// Sandbox is as in grader.Options.
	Sandbox grade.Sandbox
	// Slots is how many submissions are graded at a time. Default: as many as processors and memory allow.
	Slots int
	// OnlyChanged keeps results of equal work, even if another version of the grader produced them.
	OnlyChanged bool
	// Seed decides faults and stories, for all students. Default: drawn in the first run, and kept.
	Seed uint32
	// Harness returns the function that identifies the code that grades a lab. Package proof has it.
	Harness func(context.Context, *checkout.Checkout) (func(*manifest.Lab) (string, error), error)
	// Out gets the progress and the summary.
	Out *os.File
}

// run is one grading of a class.
type run struct {
	Options
	repo *checkout.Checkout
	labs []*manifest.Lab
	// source is the path of the submissions, and folder is the folder for the results. Both are absolute.
	source, folder string
	rules          *rules.Rules
}

// Run grades the submissions of a class, which are in a folder or in a roster, and writes the results. It checks the
// options first, before the steps that take time. It returns cli.ErrReported if a submission has no grade because of
// the machine, or if the run was interrupted.
func Run(ctx context.Context, repo *checkout.Checkout, source string, options Options) (err error) {
	r := &run{Options: options, repo: repo, rules: rules.Default()}
	if err := r.check(source); err != nil {
		return err
	}
	journal, err := course.OpenJournal(r.folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	if err := course.RemoveResults(r.folder); err != nil {
		return err
	}
	class := &course.Class{Title: cmp.Or(r.rules.Title, titleOf(r.labs)), Rules: r.rules}
	fmt.Fprintf(r.Out, "Reading %s.\n", source)
	if class.Submissions, err = r.read(ctx); err != nil {
		return err
	}
	labOptions, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	graders, err := grader.New(ctx, grader.Options{Labs: labOptions, Assets: r.repo.Assets, Sandbox: r.Sandbox})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, graders.Close()) }()
	if err := r.describe(class, graders); err != nil {
		return err
	}
	if class.Seed, err = journal.Seed(r.Seed, rand.Uint32); err != nil {
		return err
	}
	r.notice(class, journal)
	slots, err := r.slotsFor(labOptions)
	if err != nil {
		return err
	}
	jobs := class.Jobs()
	fmt.Fprintf(r.Out, "%s of %s, %d at a time.\n",
		english.Plural(len(jobs), "different submission", ""), english.Plural(len(class.Rows()), "student", ""), slots)
	class.Results, err = course.Run(ctx, course.Options{
		Jobs: jobs, Grader: graders, Journal: journal, Slots: slots,
		Deployed: max(1, runtime.NumCPU()), OnlyChanged: r.OnlyChanged,
		Board: course.NewBoard(r.Out, terminal.Detect(r.Out, os.Getenv)),
	})
	if ctx.Err() != nil {
		fmt.Fprintf(r.Out, "Interrupted: %d of %d are graded, and kept in %s. To continue, run the same command again.\n",
			course.Decided(class.Results), len(jobs), cli.Relative(r.folder))
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
func (r *run) check(source string) (err error) {
	if len(r.Labs) == 0 {
		return errors.New("--lab is missing: name the lab that was handed in, as in --lab 2; `lab labs` lists them")
	}
	var names []string
	for _, ref := range r.Labs {
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
	if r.Rules != "" {
		if r.rules, err = rules.Load(r.Rules); err != nil {
			return err
		}
	}
	r.folder = cmp.Or(r.Folder, filepath.Join(r.repo.Root, "out", "class", strings.Join(names, "+")))
	if r.folder, err = filepath.Abs(r.folder); err != nil {
		return err
	}
	if isInside(r.source, r.folder) {
		return fmt.Errorf("the results would be among the submissions, in %s: choose another folder with --out",
			cli.Relative(r.folder))
	}
	return nil
}

// isInside reports whether a path is a folder, or below it.
func isInside(dir, path string) bool {
	path, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(path)
}

// read finds the submissions.
func (r *run) read(ctx context.Context) ([]intake.Submission, error) {
	options := intake.Options{
		Source: r.source, Work: filepath.Join(r.folder, submissionsDir), Deadline: r.rules.Deadline,
		Owns: ownsByGroup(r.repo),
	}
	for _, lab := range r.labs {
		var wanted intake.Lab
		wanted, options.Course = intakeLabs(r.repo, lab.Name)
		options.Labs = append(options.Labs, wanted)
	}
	return intake.Read(ctx, options)
}

// prepare builds what grading needs.
func (r *run) prepare(ctx context.Context) ([]certify.Options, error) {
	harness, err := r.Harness(ctx, r.repo)
	if err != nil {
		return nil, err
	}
	return certify.Prepare(ctx, certify.Options{Checkout: r.repo}, harness, r.labs...)
}

// describe adds the labs to the class.
func (r *run) describe(class *course.Class, graders *grader.Grader) error {
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
func (r *run) notice(class *course.Class, journal *course.Journal) {
	if r.Sandbox == grade.SandboxOff {
		class.Notices = append(class.Notices, "There was no sandbox: a submission could read and change what you can.")
		fmt.Fprintln(r.Out, "There is no sandbox: submissions run as you. Continue only on a machine that holds no secrets.")
	}
	var students, labs []string
	for _, s := range class.Submissions {
		students = append(students, s.Student)
	}
	for i := range r.repo.Labs.Labs {
		labs = append(labs, r.repo.Labs.Labs[i].Name)
	}
	for _, unknown := range r.rules.Unknown(students, labs) {
		text := filepath.Base(r.Rules) + ", " + unknown
		class.Notices = append(class.Notices, text)
		fmt.Fprintln(r.Out, report.OneLine(text))
	}
	if n := journal.Damaged(); n > 0 {
		fmt.Fprintf(r.Out, "The journal has %s that can't be read: the submissions that they record are graded again.\n",
			english.Plural(n, "line", ""))
	}
}

// slotsFor returns how many submissions are graded at a time.
func (r *run) slotsFor(labOptions []certify.Options) (int, error) {
	if r.Slots > 0 {
		return r.Slots, nil
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
func (r *run) finish(class *course.Class) error {
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
	if err := course.WriteResults(r.folder, class, about); err != nil {
		return err
	}
	return r.printSummary(class)
}

// redactor hides the folders of this machine from students.
func (r *run) redactor() *course.Redactor {
	folders := []string{r.repo.Root, r.folder, r.source, os.TempDir(), gobuild.ModuleCache()}
	for _, find := range []func() (string, error){os.UserHomeDir, os.UserCacheDir, os.Getwd, process.Root} {
		if folder, err := find(); err == nil {
			folders = append(folders, folder)
		}
	}
	return course.NewRedactor(folders...)
}

// printSummary prints which submissions have no grade, and where the results are.
func (r *run) printSummary(class *course.Class) error {
	without, unusable := 0, 0
	for _, row := range class.Rows() {
		for _, cell := range row.Cells {
			switch {
			case !cell.Known:
				without++
				fmt.Fprintln(r.Out, report.OneLine(fmt.Sprintf("no grade: %s, %s: %s", row.Student, cell.Lab, cell.Problem)))
			case cell.Outcome == course.Unusable:
				unusable++
				fmt.Fprintln(r.Out, report.OneLine(fmt.Sprintf("unusable: %s, %s: %s", row.Student, cell.Lab, cell.Problem)))
			}
		}
	}
	if unusable > 0 {
		fmt.Fprintf(r.Out, "%s can't be graded: the comments in the gradebook also say why.\n",
			english.Plural(unusable, "submission", ""))
	}
	for _, line := range []struct{ what, name string }{
		{"The gradebook", course.GradebookFile},
		{"The page of the class", course.PageFile},
		{"Reports", course.StudentsDir},
		{"Archives for students", course.FeedbackDir},
	} {
		fmt.Fprintf(r.Out, "%-22s %s\n", line.what+":", cli.Relative(filepath.Join(r.folder, line.name)))
	}
	if without > 0 {
		fmt.Fprintf(r.Out, "%s no grade because of the machine. Run the same command again to retry them.\n",
			english.PluralWord(without, strconv.Itoa(without)+" has", strconv.Itoa(without)+" have"))
		return cli.ErrReported
	}
	return nil
}
