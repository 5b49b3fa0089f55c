// Verify the proofs of an audit bundle with the packages of Go for transparency logs, which share no code with PowerOn.
// The test puts the host of Go's own modules in place of HOST.
//
// Usage: go run check_bundle.go VKEY BUNDLE [OLD-CHECKPOINT]
package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"HOST/x/mod/sumdb/note"
	"HOST/x/mod/sumdb/tlog"
)

func main() {
	verifier, err := note.NewVerifier(os.Args[1])
	check(err)
	known := note.VerifierList(verifier)
	bundle := os.Args[2]
	lines := bytes.Split(bytes.TrimSpace(read(bundle, "entries.jsonl")), []byte("\n"))
	included(read(bundle, "head.tlog-proof"), lines[len(lines)-1], known)
	tree := included(read(bundle, "heads/entry.tlog-proof"), read(bundle, "heads/entry.json"), known)
	if len(os.Args) > 3 {
		old := opened(read("", os.Args[3]), known)
		proof := tlog.TreeProof(hashes(strings.Fields(string(read(bundle, fmt.Sprintf("consistency/%d", old.N)))), fromHex))
		check(tlog.CheckTree(proof, tree.N, tree.Hash, old.N, old.Hash))
	}
	fmt.Println("ok", tree.N)
}

// included checks that a proof leads from an entry to a signed tree, and returns the tree.
func included(proof, entry []byte, known note.Verifiers) tlog.Tree {
	head, checkpoint, _ := strings.Cut(string(proof), "\n\n")
	fields := strings.Fields(head)
	index, err := strconv.ParseInt(fields[2], 10, 64)
	check(err)
	tree := opened([]byte(checkpoint), known)
	record := tlog.RecordProof(hashes(fields[3:], base64.StdEncoding.DecodeString))
	check(tlog.CheckRecord(record, tree.N, tree.Hash, index, tlog.RecordHash(entry)))
	return tree
}

// opened checks the signature of a checkpoint, and returns the tree that it is about.
func opened(checkpoint []byte, known note.Verifiers) tlog.Tree {
	opened, err := note.Open(checkpoint, known)
	check(err)
	lines := strings.Split(opened.Text, "\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err)
	root, err := tlog.ParseHash(lines[2])
	check(err)
	return tlog.Tree{N: size, Hash: root}
}

func hashes(texts []string, decode func(string) ([]byte, error)) []tlog.Hash {
	var found []tlog.Hash
	for _, text := range texts {
		decoded, err := decode(text)
		check(err)
		found = append(found, tlog.Hash(decoded))
	}
	return found
}

func fromHex(text string) ([]byte, error) {
	var decoded []byte
	_, err := fmt.Sscanf(text, "%x", &decoded)
	return decoded, err
}

func read(folder, name string) []byte {
	data, err := os.ReadFile(filepath.Join(folder, name))
	check(err)
	return data
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
