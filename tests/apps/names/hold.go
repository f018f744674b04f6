// hold.go - leaks of a Go program through cgo: from main, a method and a goroutine, and through a callback of C's.
package main

/*
#include <cuda_runtime_api.h>
void goBack(int n);
static void *take(size_t n) { void *p = 0; cudaMalloc(&p, n); return p; }
static void callBack(int n) { goBack(n); }
*/
import "C"
import (
	"fmt"
	"unsafe"
)

var keep []unsafe.Pointer

type Cache struct{ n int }

//go:noinline
func load(n int) { keep = append(keep, unsafe.Pointer(C.take(C.size_t(n)))) }

//go:noinline
func (c *Cache) Fill(n int) { keep = append(keep, unsafe.Pointer(C.take(C.size_t(n)))) }

//export goBack
func goBack(n C.int) { load(int(n)) }

//go:noinline
func direct(n int) {
	var p unsafe.Pointer
	C.cudaMalloc(&p, C.size_t(n))
	keep = append(keep, p)
}

func main() {
	load(3 << 20)
	(&Cache{}).Fill(5 << 20)
	done := make(chan bool)
	go func() { load(7 << 20); done <- true }()
	<-done
	direct(9 << 20)
	C.callBack(11 << 20)
	fmt.Println(len(keep), "kept")
}
