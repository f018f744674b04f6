// rust.rs - Rust: generic types, closures, iterators and threads that call cudaMalloc.
use std::ffi::c_void;
use std::marker::PhantomData;
use std::thread;

#[link(name = "cudart")]
extern "C" {
    fn cudaMalloc(data: *mut *mut c_void, bytes: usize) -> i32;
}

#[inline]
fn take(mib: usize) -> usize {
    let mut data: *mut c_void = std::ptr::null_mut();
    let code = unsafe { cudaMalloc(&mut data, mib << 20) };
    if code != 0 {
        std::process::exit(2);
    }
    data as usize
}

struct Buffer<T> {
    data: usize,
    _type: PhantomData<T>,
}

impl<T> Buffer<T> {
    #[inline]
    fn new(mib: usize) -> Self {
        Buffer {
            data: take(mib),
            _type: PhantomData,
        }
    }
}

trait Fill {
    fn fill(&mut self, mib: usize) -> usize;
}

impl<T> Fill for Vec<Buffer<T>> {
    #[inline]
    fn fill(&mut self, mib: usize) -> usize {
        self.push(Buffer::new(mib));
        self.len()
    }
}

#[inline(never)]
fn constructed(mib: usize) -> usize {
    Buffer::<f32>::new(mib).data
}

#[inline(never)]
fn by_trait(mib: usize) -> usize {
    let mut list: Vec<Buffer<u8>> = Vec::new();
    list.fill(mib) + list[0].data
}

#[inline(never)]
fn mapped(mib: usize) -> usize {
    (0..2)
        .map(|n| take(mib + n))
        .filter(|&data| data != 0)
        .count()
}

#[inline(never)]
fn closed_over(mib: usize) -> usize {
    let twice = |more: usize| take(mib + more);
    twice(1)
}

#[inline(never)]
fn on_a_thread(mib: usize) -> usize {
    thread::spawn(move || take(mib)).join().unwrap()
}

fn main() {
    let mut sum = constructed(1);
    sum |= by_trait(2);
    sum |= mapped(3);
    sum |= closed_over(4);
    sum |= on_a_thread(6);
    std::process::exit((sum == 0) as i32);
}
