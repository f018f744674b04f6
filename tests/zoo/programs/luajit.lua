-- luajit.lua - CUDA calls from code that LuaJIT has compiled; one block in 500 is kept.
-- zoo: prints 0\s0\shello lua
local ffi=require("ffi")
ffi.cdef[[int cudaMalloc(void**,size_t); int cudaFree(void*); int cudaMemcpy(void*,const void*,size_t,int);]]
local c=ffi.load("libcudart.so.13")
local function keep(n) local p=ffi.new("void*[1]"); assert(c.cudaMalloc(p,n)==0); return p[0] end
local last
for i=1,2000 do local p=keep(1024*i); if i%500==0 then last=p else assert(c.cudaFree(p)==0) end end
local s=ffi.new("char[16]","hello lua"); local o=ffi.new("char[16]")
print(c.cudaMemcpy(last,s,16,1),c.cudaMemcpy(o,last,16,2),ffi.string(o))
