/*
 * owners.cpp - constructors within constructors and containers: smart pointers, moved
 * objects, members and bases, std::map, std::vector.
 */
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "take.h"

struct Block {
    void *data;
    explicit Block(int mib) : data(take(mib))
    {
    }
};
struct Named {
    std::string name;
    Block block;
    Named(const char *text, int mib) : name(text), block(mib)
    {
    }
};
class Tensor : public Named
{
    std::vector<int> shape_;

  public:
    Tensor(int mib, int rank) : Named("tensor", mib), shape_(std::size_t(rank))
    {
    }
    std::size_t rank() const
    {
        return shape_.size();
    }
};
struct Forget {
    void operator()(Block *block) const
    {
        delete block; /* not what it has */
    }
};

KEEP static std::size_t inherited(int mib)
{
    return Tensor(mib, 3).rank();
}

KEEP static void *unique(int mib)
{
    auto block = std::unique_ptr<Block, Forget>(new Block(mib));
    auto other = std::move(block);
    return other->data;
}

KEEP static void *shared(int mib)
{
    return std::make_shared<Named>("shared", mib)->block.data;
}

KEEP static std::size_t placed(int mib)
{
    std::vector<Named> list;
    std::map<int, Block> blocks;
    list.emplace_back("first", mib);
    blocks.try_emplace(7, mib + 1);
    blocks.emplace(std::piecewise_construct, std::forward_as_tuple(8),
                   std::forward_as_tuple(mib + 2));
    return list.size() + blocks.size();
}

int main()
{
    inherited(1);
    unique(2);
    shared(3);
    return placed(4) != 3;
}
