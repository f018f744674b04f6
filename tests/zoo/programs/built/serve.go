// serve.go - a Go program over the driver API (cgo): goroutines on locked threads, garbage collection, a leak. A Go
// program ends by the system call, past the C library. With ZOO_WAITS it waits for attach_share.sh.
// zoo: prints kept: true
// zoo: prints 3200 rounds
package main

/*
#include <cuda.h>
static unsigned long long take(size_t n) { CUdeviceptr p = 0; return cuMemAlloc(&p, n) ? 0 : p; }
static int start(void)
{
	CUdevice d;
	CUcontext c;
	return cuInit(0) || cuDeviceGet(&d, 0) || cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c);
}
static int drop(unsigned long long p) { return cuMemFree(p); }
*/
import "C"
import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func keep() bool {
	return C.take(5<<20) != 0
}

func step(done, wanted string) {
	folder := os.Getenv("ZOO_WAITS")
	if folder == "" {
		return
	}
	os.WriteFile(folder+"/"+done, nil, 0o600)
	for {
		if _, err := os.Stat(folder + "/" + wanted); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func main() {
	runtime.LockOSThread()
	if C.start() != 0 {
		os.Exit(2)
	}
	fmt.Println("kept:", keep())
	step("ready", "begin")
	var group sync.WaitGroup
	var rounds atomic.Int64
	for i := 0; i < 32; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			if C.start() != 0 {
				return
			}
			for j := 0; j < 100; j++ {
				p := C.take(4096)
				if j%50 == 0 {
					runtime.GC()
				}
				if p != 0 && C.drop(p) == 0 {
					rounds.Add(1)
				}
			}
		}()
	}
	group.Wait()
	step("done", "end")
	fmt.Println(rounds.Load(), "rounds")
}
