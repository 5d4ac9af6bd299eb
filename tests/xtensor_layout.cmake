# Tests a program that defines XTENSOR_DEFAULT_LAYOUT, so that its xtensor containers are column-major.
add_executable(cubist_xtensor_layout xtensor_layout/column_major.cpp)
target_link_libraries(cubist_xtensor_layout PRIVATE cubist::cubist cubist_test_main cubist_warnings)
target_compile_definitions(cubist_xtensor_layout PRIVATE XTENSOR_DEFAULT_LAYOUT=::xt::layout_type::column_major)
add_test(NAME "xtensor layout: column-major" COMMAND cubist_xtensor_layout)
set_tests_properties("xtensor layout: column-major" PROPERTIES LABELS threads TIMEOUT 60)
