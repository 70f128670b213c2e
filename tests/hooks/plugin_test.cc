// Plug-ins in a rank: shared libraries whose hooks are added to the registry.
#include "hooks/registry/plugin.h"

#include <gmock/gmock.h>

#include <ATen/ops/full.h>

#include <string>

#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::run_ranks;

const std::string kFolder = PLUGIN_FOLDER;

std::string error_of_loading(const std::string& file, Registry& registry) {
  return failure_of<HookError>([&] { load_plugin(file, registry); });
}

TEST(LoadPlugin, AddsHooksToTheGivenRegistry) {
  Registry registry = Registry::built_in();
  load_plugin(kFolder + "/double_plugin.so", registry);
  ASSERT_TRUE(registry.has_factory("doubled_average"));
  EXPECT_FALSE(Registry::instance().has_factory("doubled_average"));
  EXPECT_EQ(registry.catalog().find_hook("doubled_average")->plugin, kFolder + "/double_plugin.so");

  // It is already loaded, so nothing is registered twice.
  const std::size_t hooks = registry.catalog().hooks().size();
  load_plugin(kFolder + "/double_plugin.so", registry);
  EXPECT_EQ(registry.catalog().hooks().size(), hooks);

  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    const auto comm = std::make_shared<Comm>(
        world->rank(), world->size(), [&](const std::string& name) { return world->make_group(name); });
    const auto hook = registry.build("doubled_average", "no", {{"factor", 4.0}}, {comm});
    EXPECT_EQ(hook->describe(), "doubled_average(factor=4)");
    const at::Tensor gradients = at::full({3}, world->rank() + 1.0);
    c10d::GradBucket bucket(0, 1, gradients, {0}, {3}, {gradients.sizes()}, {}, std::nullopt);
    const auto future = hook->runHook(bucket);
    future->waitAndThrow();
    EXPECT_TRUE(tensor_of(*future).equal(at::full({3}, 6.0)));  // 4 times the mean of 1 and 2
  });
}

TEST(LoadPlugin, RefusesWhatTheLauncherRefuses) {
  Registry registry = Registry::built_in();
  EXPECT_THAT(error_of_loading("/nowhere/libmine.so", registry),
              HasSubstr("plug-in '/nowhere/libmine.so' is not there: "));
  EXPECT_THAT(error_of_loading(kFolder + "/old_plugin.so", registry),
              AllOf(HasSubstr("old_plugin.so' can't be used: it was built with torch 1.2.3, hookline 0.1.0; "
                              "the program was built with torch "),
                    HasSubstr(": build both with the same")));
  EXPECT_THAT(error_of_loading(kFolder + "/taken_plugin.so", registry),
              HasSubstr("taken_plugin.so' can't be used: hook 'fp16' is there already"));
  EXPECT_EQ(registry.catalog().hooks().size(), Catalog::built_in().hooks().size());
}

TEST(LoadPlugin, RefusesAPluginWithItsOwnCopyOfHookline) {
  Registry registry = Registry::built_in();
  EXPECT_THAT(
      error_of_loading(kFolder + "/copying_plugin.so", registry),
      AllOf(HasSubstr("copying_plugin.so' did not register its hooks with this program: it has a copy of "
                      "hookline of its own"),
            HasSubstr("link it with hookline::plugin, and with no other of hookline's libraries")));
  EXPECT_FALSE(registry.has_factory("doubled_average"));
}

TEST(LoadPlugin, RefusesHooksOfALinkedLibraryThatIsNotAPlugin) {
  Registry registry = Registry::built_in();
  EXPECT_THAT(
      error_of_loading(kFolder + "/outer_plugin.so", registry),
      HasSubstr(
          "outer_plugin.so' registered hooks that its file does not show: a library that it links has some; "
          "name that library in [ddp] plugins, too, before this one"));
  EXPECT_EQ(registry.catalog().hooks().size(), Catalog::built_in().hooks().size());
}

TEST(LoadPlugin, SaysWhyTheSystemCannotLoadAPlugin) {
  Registry registry = Registry::built_in();
  EXPECT_THAT(error_of_loading(kFolder + "/lacking_plugin.so", registry),
              AllOf(HasSubstr("lacking_plugin.so' can't be loaded: "), HasSubstr("undefined symbol: "),
                    HasSubstr("hookline_lacks_this"), HasSubstr("a plug-in links hookline::plugin")));
}

}  // namespace
}  // namespace hookline
