# lapwing_embed_text(<output header> <symbol> <file>): a text file as one C string, "static const char <symbol>[]".
# Run at configure time; a changed file re-runs configure.
function(lapwing_embed_text header symbol file)
  file(READ ${file} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(body "/* Generated; do not edit. */\nstatic const char ${symbol}[] =\n\"${text}\";\n")
  file(CONFIGURE OUTPUT ${header} CONTENT "${body}" @ONLY)
endfunction()
